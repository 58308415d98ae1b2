"""The dialect `chlo`: functions and forms that StableHLO lacks."""
