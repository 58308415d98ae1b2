"""The ONNX frontend: reads models from files (`files.py`) or memory, and imports them as modules (`model.py`)."""
