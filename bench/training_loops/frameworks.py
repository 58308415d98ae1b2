"""Training loops of flax, equinox and haiku with optax, and of PyTorch, in the style of their manuals."""

from __future__ import annotations

from typing import Any

from bench.training_loops.loop import Loop


def linen(size: int) -> Loop:
    """Return a flax.linen loop with a `TrainState`, dropout and batch statistics."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax
    from flax.training.train_state import TrainState

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            # no bias: its gradient is zero up to rounding, and Adam would amplify the rounding errors
            x = nn.Dense(4 * size, use_bias=False)(x)
            x = nn.BatchNorm(use_running_average=False, momentum=0.9)(x)
            x = nn.Dropout(0.1, deterministic=False)(nn.gelu(x))
            return nn.Dense(2)(x)

    class State(TrainState):
        batch_stats: Any
        key: Any

    def step(state: Any, x: Any, y: Any) -> Any:
        key, dropout = jax.random.split(state.key)

        def loss_of(params: Any) -> Any:
            variables = {"params": params, "batch_stats": state.batch_stats}
            out, changed = state.apply_fn(variables, x, rngs={"dropout": dropout}, mutable=["batch_stats"])
            return jnp.square(out - y).mean(), changed

        (loss, changed), grads = jax.value_and_grad(loss_of, has_aux=True)(state.params)
        state = state.apply_gradients(grads=grads, batch_stats=changed["batch_stats"], key=key)
        return state, {"loss": loss, "step": state.step}

    net = Net()
    variables = net.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, jnp.ones((8, size)))
    state = State.create(
        apply_fn=net.apply, params=variables["params"], tx=optax.adam(3e-3), batch_stats=variables["batch_stats"], key=jax.random.key(2)
    )  # fmt: skip
    jitted = jax.jit(step)

    def framework(state: Any, x: Any, y: Any) -> Any:
        state, metrics = jitted(state, x, y)
        return (state,), metrics["loss"]

    return Loop(jax.jit(step, donate_argnums=0), {"state": state}, framework)


def nnx(size: int) -> Loop:
    """Return a flax.nnx loop. Its model and optimizer are split into a static graph and a state of arrays."""
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.up, self.norm = nnx.Linear(size, 4 * size, rngs=rngs), nnx.LayerNorm(4 * size, rngs=rngs)
            self.down = nnx.Linear(4 * size, 2, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.down(nnx.gelu(self.norm(self.up(x))))

    def split_model() -> Any:
        model = Net(nnx.Rngs(0))
        return nnx.split((model, nnx.Optimizer(model, optax.adamw(3e-3), wrt=nnx.Param)))

    graph, first = split_model()

    def step(state: Any, x: Any, y: Any) -> Any:
        model, optimizer = nnx.merge(graph, state)
        loss, grads = nnx.value_and_grad(lambda model: jnp.square(model(x) - y).mean())(model)
        optimizer.update(model, grads)
        return loss, nnx.state((model, optimizer))

    jitted = jax.jit(step)

    def framework(state: Any, x: Any, y: Any) -> Any:
        loss, state = jitted(state, x, y)
        return (state,), loss

    return Loop(jax.jit(step, donate_argnums=0), {"state": first}, framework)


def equinox(size: int) -> Loop:
    """Return an equinox loop. The model is a pytree of its class; its activation functions are static leaves."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax

    model = eqx.nn.MLP(size, 2, 4 * size, 1, key=jax.random.key(0))
    arrays, static = eqx.partition(model, eqx.is_array)
    optimizer = optax.adam(3e-3)

    def step(model: Any, opt_state: Any, x: Any, y: Any) -> Any:
        def loss_of(arrays: Any) -> Any:
            return jnp.square(jax.vmap(eqx.combine(arrays, static))(x) - y).mean()

        loss, grads = jax.value_and_grad(loss_of)(model)
        updates, opt_state = optimizer.update(grads, opt_state)
        return eqx.apply_updates(model, updates), opt_state, loss

    jitted = jax.jit(step)

    def framework(model: Any, opt_state: Any, x: Any, y: Any) -> Any:
        *state, loss = jitted(model, opt_state, x, y)
        return tuple(state), loss

    state = {"model": arrays, "opt_state": optimizer.init(arrays)}
    return Loop(jax.jit(step, donate_argnums=(0, 1)), state, framework)


def haiku(size: int) -> Loop:
    """Return a haiku loop with transformed functions and state. One named tuple contains all arrays that training
    changes.
    """
    from typing import NamedTuple

    import haiku as hk
    import jax
    import jax.numpy as jnp
    import optax

    class Training(NamedTuple):
        params: Any
        state: Any
        opt_state: Any

    def forward(x: Any) -> Any:
        x = jax.nn.gelu(hk.Linear(4 * size)(x))
        mean = hk.get_state("mean", (), init=jnp.zeros)
        hk.set_state("mean", 0.9 * mean + 0.1 * x.mean())
        return hk.Linear(2)(x)

    net, optimizer = hk.without_apply_rng(hk.transform_with_state(forward)), optax.sgd(0.02, momentum=0.9)
    params, state = net.init(jax.random.key(0), jnp.ones((8, size)))

    def step(training: Any, x: Any, y: Any) -> Any:
        def loss_of(params: Any) -> Any:
            out, state = net.apply(params, training.state, x)
            return jnp.square(out - y).mean(), state

        (loss, state), grads = jax.value_and_grad(loss_of, has_aux=True)(training.params)
        updates, opt_state = optimizer.update(grads, training.opt_state)
        return Training(optax.apply_updates(training.params, updates), state, opt_state), loss

    jitted = jax.jit(step)

    def framework(training: Any, x: Any, y: Any) -> Any:
        training, loss = jitted(training, x, y)
        return (training,), loss

    first = Training(params, state, optimizer.init(params))
    return Loop(jax.jit(step, donate_argnums=0), {"training": first}, framework)


def torch(size: int) -> Loop:
    """Return a PyTorch loop. The compiled step is recorded by `torch.func` and `make_fx` and has the formula of AdamW;
    it is compared with `torch.optim.AdamW`.
    """
    import numpy as np
    import torch
    from torch import nn
    from torch.fx.experimental.proxy_tensor import make_fx

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.LayerNorm(4 * size), nn.Linear(4 * size, 2))
    rate, decay = 3e-3, 0.01

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        def loss_of(params: Any) -> Any:
            return nn.functional.mse_loss(torch.func.functional_call(model, params, (x,)), y)

        grads, loss = torch.func.grad_and_value(loss_of)(params)
        count = state["count"] + 1
        first = {name: torch.lerp(state["first"][name], g, 0.1) for name, g in grads.items()}
        second = {name: torch.lerp(state["second"][name], g * g, 0.001) for name, g in grads.items()}
        scaled = {n: first[n] / (1 - 0.9**count) / ((second[n] / (1 - 0.999**count)).sqrt() + 1e-8) for n in grads}
        params = {name: p * (1 - rate * decay) - rate * scaled[name] for name, p in params.items()}
        return loss, params, {"first": first, "second": second, "count": count}

    def zeros() -> dict[str, Any]:
        return {name: torch.zeros_like(p) for name, p in params.items()}

    params = {name: p.detach().clone() for name, p in model.named_parameters()}
    state = {"first": zeros(), "second": zeros(), "count": torch.zeros(())}
    x, y = torch.ones(8, size), torch.ones(8, 2)
    traced = make_fx(step)(params, state, x, y)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)

    def framework(_params: Any, _state: Any, x: Any, y: Any) -> Any:
        loss = nn.functional.mse_loss(model(torch.from_numpy(np.array(x))), torch.from_numpy(np.array(y)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        slots = {name: optimizer.state[p] for name, p in model.named_parameters()}
        first, second = ({name: slot[key] for name, slot in slots.items()} for key in ("exp_avg", "exp_avg_sq"))
        params = {name: p.detach() for name, p in model.named_parameters()}
        count = next(iter(slots.values()))["step"]
        return (params, {"first": first, "second": second, "count": count}), loss.detach()

    return Loop(traced, {"arg0": params, "arg1": state}, framework, ["arg0", "arg1"], ("arg2", "arg3"))
