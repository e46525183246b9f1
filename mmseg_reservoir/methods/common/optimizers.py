"""Optimizers: any of torch's, by name."""

from __future__ import annotations

from functools import partial

import torch

from ...config.schema import Options, PartSpec, pick
from ...errors import ReservoirError
from ...registry import register

_NO_PLAIN_STEP = ("Optimizer", "LBFGS", "SparseAdam")

for _name, _cls in vars(torch.optim).items():
    is_optimizer = isinstance(_cls, type) and issubclass(_cls, torch.optim.Optimizer)
    if is_optimizer and _name not in _NO_PLAIN_STEP:
        register("optimizer", _name)(_cls)


def pick_optimizer(options: Options | str, where: str = "method.optimizer") -> PartSpec:
    """Read ``dict(type="Adam", lr=...)``, and check its values by a step on one number."""
    choice = pick("optimizer", options, where, default="Adam", given=("params",))
    number = torch.zeros(1, requires_grad=True)
    number.grad = torch.ones(1)
    try:
        choice.make(params=[number]).step()
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ReservoirError(f"{where}: {choice.name} refuses these options: {error}") from error
    return choice


def optimizer_factory(choice: PartSpec) -> partial:
    """Return the factory of the optimizer, a function of the parameters."""
    return partial(choice.factory, **choice.options)
