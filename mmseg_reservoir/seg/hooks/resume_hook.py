"""Resume a test run that was killed."""

from __future__ import annotations

from typing import Any

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...errors import ReservoirError
from ...runs.generators import load_generators, save_generators
from ...runs.identity import run_identity
from ...runs.run_saver import RunSaver
from ...style.encoder import weight_digest
from ..loop import RecurringTestLoop


@HOOKS.register_module()
class ResumeHook(Hook):
    """Saves the state of a run, so that it can be resumed after it was killed.

    The state covers the pipeline (experts, optimizers, router, guard, ...), the loop (position in
    the stream, scores of the visit so far), the random generators, and every hook with a
    ``state_dict`` and a ``load_state_dict``. It is saved at the start, at the end of every visit,
    at intervals in between, and on Ctrl-C or SIGTERM.

    Args:
        resume: ``"auto"`` resumes from the newest state in the work directory, or starts at the
            first image if there is no state. A path resumes from that file. Defaults to None.
        overwrite: Whether to remove existing results from the work directory. Defaults to False.
        minutes: Minutes between two states; None for no such interval. Defaults to 10.
        images: Number of images between two states. Defaults to None, no such interval.
        keep_mb: Largest size in megabytes at which the last state of a complete run is kept.
            Defaults to 500.
    """

    priority = "LOWEST"  # all other hooks have seen a batch when its state is saved

    def __init__(
        self,
        resume: str | None = None,
        overwrite: bool = False,
        minutes: float | None = 10.0,
        images: int | None = None,
        keep_mb: float = 500.0,
    ) -> None:
        self.options: dict[str, Any] = {"resume": resume, "overwrite": overwrite}
        self.options |= {"minutes": minutes, "images": images, "keep_mb": keep_mb}

    def before_run(self, runner: Runner) -> None:
        """Check and lock the work directory before anything is computed."""
        if not isinstance(runner.test_loop, RecurringTestLoop):
            raise ReservoirError("ResumeHook saves tests by test_cfg.type='RecurringTestLoop' only")
        self._saver = RunSaver(runner.work_dir, **self.options, report=runner.logger.info)
        runner.test_loop.closing.enter_context(self._saver)

    def before_test(self, runner: Runner) -> None:
        """Restore the saved state; without one, save the initial state."""
        record = runner.test_loop.record
        if record is None:
            raise ReservoirError(
                "ResumeHook needs dict(type='ResultsHook') in custom_hooks, too: results are a "
                "part of what it saves"
            )
        identity = run_identity(record.to_json(), weight_digest(runner.model))
        state = self._saver.begin(identity)
        if state is None:
            self._saver.save(0, lambda: self._take(runner))
            return
        with self._saver.restoring():
            runner.model.pipeline.load_state_dict(state["pipeline"])
            for name, hook in _hooks_with_state(runner).items():
                if name not in state["hooks"]:
                    raise ReservoirError(
                        f"the run was saved without the hook {name}: resume without it, too"
                    )
                hook.load_state_dict(state["hooks"][name])
            runner.test_loop.load_state_dict(state["loop"])
            load_generators(state["generators"])

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        images = len(runner.test_loop.record.routes)
        self._saver.after(images, lambda: self._take(runner))

    def after_test_epoch(self, runner: Runner, metrics: dict[str, float]) -> None:
        images = len(runner.test_loop.record.routes)
        self._saver.after(images, lambda: self._take(runner), landmark=True)

    def after_test(self, runner: Runner) -> None:
        self._saver.finish()

    def _take(self, runner: Runner) -> dict[str, Any]:
        return {
            "pipeline": runner.model.pipeline.state_dict(),
            "loop": runner.test_loop.state_dict(),
            "hooks": {n: hook.state_dict() for n, hook in _hooks_with_state(runner).items()},
            "generators": save_generators(),
        }


def _hooks_with_state(runner: Runner) -> dict[str, Any]:
    """Return the hooks that have a state, by the name of their class."""
    return {type(hook).__name__: hook for hook in runner.hooks if hasattr(hook, "state_dict")}
