"""The ONNX frontend: models from files and from memory."""

from meshgen.frontend.onnx.files import is_onnx
from meshgen.frontend.onnx.model import from_onnx

__all__ = ["from_onnx", "is_onnx"]
