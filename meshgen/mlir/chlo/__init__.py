"""The dialect `chlo`: functions that StableHLO lacks, implicit broadcasts, ragged dots and scans."""
