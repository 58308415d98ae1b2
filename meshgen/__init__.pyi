"""Types of the public names; `__init__.py` looks them up on first use."""

from meshgen.api import advise as advise
from meshgen.api import compile as compile
from meshgen.api import load as load
from meshgen.api import lower as lower
from meshgen.api import simulate as simulate
from meshgen.auto import mutate as mutate
from meshgen.auto import search as search
from meshgen.compiled.executable import Executable as Executable
from meshgen.errors import MeshgenError as MeshgenError
from meshgen.frontend.tracer import Tensor as Tensor
from meshgen.frontend.tracer import annotate as annotate
from meshgen.frontend.tracer import spec as spec
from meshgen.frontend.tracer import trace as trace
from meshgen.frontend.tracer.elementwise import abs_
from meshgen.frontend.tracer.elementwise import add as add
from meshgen.frontend.tracer.elementwise import astype as astype
from meshgen.frontend.tracer.elementwise import ceil as ceil
from meshgen.frontend.tracer.elementwise import clip as clip
from meshgen.frontend.tracer.elementwise import cos as cos
from meshgen.frontend.tracer.elementwise import divide as divide
from meshgen.frontend.tracer.elementwise import erf as erf
from meshgen.frontend.tracer.elementwise import exp as exp
from meshgen.frontend.tracer.elementwise import expm1 as expm1
from meshgen.frontend.tracer.elementwise import floor as floor
from meshgen.frontend.tracer.elementwise import gelu as gelu
from meshgen.frontend.tracer.elementwise import log as log
from meshgen.frontend.tracer.elementwise import log1p as log1p
from meshgen.frontend.tracer.elementwise import maximum as maximum
from meshgen.frontend.tracer.elementwise import minimum as minimum
from meshgen.frontend.tracer.elementwise import multiply as multiply
from meshgen.frontend.tracer.elementwise import negative as negative
from meshgen.frontend.tracer.elementwise import power as power
from meshgen.frontend.tracer.elementwise import relu as relu
from meshgen.frontend.tracer.elementwise import rsqrt as rsqrt
from meshgen.frontend.tracer.elementwise import sigmoid as sigmoid
from meshgen.frontend.tracer.elementwise import sign as sign
from meshgen.frontend.tracer.elementwise import silu as silu
from meshgen.frontend.tracer.elementwise import sin as sin
from meshgen.frontend.tracer.elementwise import sqrt as sqrt
from meshgen.frontend.tracer.elementwise import square as square
from meshgen.frontend.tracer.elementwise import subtract as subtract
from meshgen.frontend.tracer.elementwise import tanh as tanh
from meshgen.frontend.tracer.linear import einsum as einsum
from meshgen.frontend.tracer.linear import matmul as matmul
from meshgen.frontend.tracer.logic import bitwise_and as bitwise_and
from meshgen.frontend.tracer.logic import bitwise_or as bitwise_or
from meshgen.frontend.tracer.logic import bitwise_xor as bitwise_xor
from meshgen.frontend.tracer.logic import equal as equal
from meshgen.frontend.tracer.logic import greater as greater
from meshgen.frontend.tracer.logic import greater_equal as greater_equal
from meshgen.frontend.tracer.logic import invert as invert
from meshgen.frontend.tracer.logic import isfinite as isfinite
from meshgen.frontend.tracer.logic import less as less
from meshgen.frontend.tracer.logic import less_equal as less_equal
from meshgen.frontend.tracer.logic import logical_and as logical_and
from meshgen.frontend.tracer.logic import logical_not as logical_not
from meshgen.frontend.tracer.logic import logical_or as logical_or
from meshgen.frontend.tracer.logic import logical_xor as logical_xor
from meshgen.frontend.tracer.logic import not_equal as not_equal
from meshgen.frontend.tracer.logic import where as where
from meshgen.frontend.tracer.manual import all_gather as all_gather
from meshgen.frontend.tracer.manual import all_reduce as all_reduce
from meshgen.frontend.tracer.manual import all_to_all as all_to_all
from meshgen.frontend.tracer.manual import manual as manual
from meshgen.frontend.tracer.manual import process_index as process_index
from meshgen.frontend.tracer.manual import reduce_scatter as reduce_scatter
from meshgen.frontend.tracer.manual import shift as shift
from meshgen.frontend.tracer.op_rule import op_rule as op_rule
from meshgen.frontend.tracer.reduce import all_, any_, max_, min_, sum_
from meshgen.frontend.tracer.reduce import layer_norm as layer_norm
from meshgen.frontend.tracer.reduce import log_softmax as log_softmax
from meshgen.frontend.tracer.reduce import mean as mean
from meshgen.frontend.tracer.reduce import prod as prod
from meshgen.frontend.tracer.reduce import softmax as softmax
from meshgen.frontend.tracer.reduce import std as std
from meshgen.frontend.tracer.reduce import var as var
from meshgen.frontend.tracer.shapes import arange as arange
from meshgen.frontend.tracer.shapes import broadcast_to as broadcast_to
from meshgen.frontend.tracer.shapes import concatenate as concatenate
from meshgen.frontend.tracer.shapes import expand_dims as expand_dims
from meshgen.frontend.tracer.shapes import full as full
from meshgen.frontend.tracer.shapes import iota as iota
from meshgen.frontend.tracer.shapes import ones as ones
from meshgen.frontend.tracer.shapes import pad as pad
from meshgen.frontend.tracer.shapes import reshape as reshape
from meshgen.frontend.tracer.shapes import split as split
from meshgen.frontend.tracer.shapes import squeeze as squeeze
from meshgen.frontend.tracer.shapes import stack as stack
from meshgen.frontend.tracer.shapes import swapaxes as swapaxes
from meshgen.frontend.tracer.shapes import take as take
from meshgen.frontend.tracer.shapes import transpose as transpose
from meshgen.frontend.tracer.shapes import zeros as zeros
from meshgen.mesh import Mesh as Mesh
from meshgen.mesh import make_mesh as make_mesh
from meshgen.reports.picture import show as show
from meshgen.runtime.sessions.session import Session as Session
from meshgen.runtime.sessions.sharded import ShardedArray as ShardedArray
from meshgen.spec import P as P
from meshgen.spec import Sharding as Sharding

__version__: str
IMPORTED_AT: float
abs = abs_
all = all_
any = any_
max = max_
min = min_
sum = sum_
