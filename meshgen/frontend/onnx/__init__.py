"""The ONNX frontend: models from files (`files.py`) and from memory become modules (`model.py`)."""
