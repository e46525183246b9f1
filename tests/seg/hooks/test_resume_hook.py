import json
import signal
from types import SimpleNamespace

import pytest
from mmengine.config import Config
from mmengine.runner import Runner
from stream_run import TINY, data_options

from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.state_files import read_state
from mmseg_reservoir.seg import AdaptiveSegmentor, ResumeHook


def command(minicity, tmp_path, *options):
    words = [TINY / "segformer-tiny_tent.py", "--random-weights", f"--work-dir={tmp_path / 'w'}"]
    return [str(w) for w in [*words, "--cfg-options", *data_options(minicity), *options]]


def fail(capfd, words):
    assert test_tta.main(words) == 2
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    return line


def stop_at(call, monkeypatch):
    """Ctrl-C comes while this image is predicted."""
    seen, forward = [], AdaptiveSegmentor.forward

    def counted(self, *args, **options):
        seen.append(1)
        if len(seen) == call:
            signal.raise_signal(signal.SIGINT)
        return forward(self, *args, **options)

    monkeypatch.setattr(AdaptiveSegmentor, "forward", counted)
    return seen


def test_ctrl_c_saves_and_the_run_goes_on_in_the_middle_of_a_visit(minicity, tmp_path, capfd):
    words = command(minicity, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        stop_at(5, patch)
        assert test_tta.main(words) == 130
    folder = tmp_path / "w" / "state"
    assert {path.name for path in folder.iterdir()} == {
        "0000000003.safetensors",  # the end of the first visit
        "0000000005.safetensors",
        "newest",
    }
    state, header = read_state(folder / "0000000005.safetensors")
    assert (state["loop"]["visit"], state["loop"]["batches"]) == (1, 2)
    assert header["images"] == 5
    assert "stopped after 5 images: continue with --resume" in capfd.readouterr().out

    assert "holds the results of an unfinished run" in fail(capfd, words)
    line = fail(capfd, [*words, "method.optimizer.lr=0.5", "--resume"])
    assert "config.method.optimizer.lr was 0.0001, is 0.5" in line
    with pytest.MonkeyPatch.context() as patch:
        seen = stop_at(99, patch)
        assert test_tta.main([*words, "--resume"]) == 0
    assert len(seen) == 12 - 5  # images that were done are not predicted again
    results = json.loads((tmp_path / "w" / "results.json").read_text())
    assert results["complete"] is True
    assert [visit["n_images"] for visit in results["visits"]] == [3] * 4
    assert [path.name for path in folder.glob("*.safetensors")] == ["0000000012.safetensors"]


def test_what_it_cannot_save_is_said(minicity, tmp_path):
    cfg = Config.fromfile(TINY / "segformer-tiny_tent.py")
    cfg.merge_from_dict({"test_dataloader.dataset.data_root": str(minicity)})
    cfg.load_from, cfg.work_dir = None, str(tmp_path)
    cfg.custom_hooks = [hook for hook in cfg.custom_hooks if hook.type != "ResultsHook"]
    runner = Runner.from_cfg(cfg)
    with pytest.raises(ReservoirError, match="ResumeHook needs dict"):
        runner.test()
    with pytest.raises(ReservoirError, match="RecurringTestLoop"):
        ResumeHook().before_run(SimpleNamespace(test_loop=object()))
