"""Functions of functions: grad, value_and_grad, vjp, jvp, jacfwd, jacrev, hessian, vmap, jit, scan, custom_vjp, checkpoint."""
from .axis import vmap as vmap
from .derivatives import grad as grad, hessian as hessian, jacfwd as jacfwd, jacrev as jacrev, jvp as jvp, stop_gradient as stop_gradient
from .derivatives import value_and_grad as value_and_grad, vjp as vjp
from .loops import scan as scan
from .own import checkpoint as checkpoint, custom_vjp as custom_vjp
from .recorded import jit as jit
