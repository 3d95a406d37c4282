"""Between tensors and buffers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from moving import devices

import hologram as hg
import hologram_torch as ht


def test_a_buffer_is_the_tensors_memory(ex: hg.Executor) -> None:
    x = torch.arange(12.0).reshape(3, 4)
    buffer, flat = ht.tensor_to_buffer(ex, x)
    assert flat.shape == (12,)
    assert buffer.to_numpy().tolist() == list(range(12))
    buffer.fill(7)
    assert (x == 7).all()
    y = torch.arange(12.0).reshape(3, 4).t()
    buffer, flat = ht.tensor_to_buffer(ex, y)
    buffer.fill(7)
    assert y[0, 1] == 4, "a copy: its elements don't lie in order"


def test_into_a_buffer(ex: hg.Executor) -> None:
    buffer = ex.allocate(12)
    found, flat = ht.tensor_to_buffer(ex, torch.ones(3, 4, requires_grad=True), buffer)
    assert found is buffer
    assert not flat.requires_grad
    assert buffer.to_numpy().sum() == 12
    with pytest.raises(ValueError, match=r"size 3 doesn't match the buffer's 12"):
        ht.tensor_to_buffer(ex, torch.ones(3), buffer)


def test_what_is_refused(ex: hg.Executor) -> None:
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        ht.tensor_to_buffer(ex, np.ones(3))
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        ht.validate_tensor_compatible([1])
    with pytest.raises(ValueError, match="float32"):
        ht.validate_tensor_compatible(torch.ones(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="CPU"):
        ht.validate_tensor_compatible(torch.ones(3, device="meta"))
    with pytest.raises(ValueError, match="dense"):
        ht.validate_tensor_compatible(torch.ones(3).to_sparse())
    with pytest.raises(ValueError, match="empty"):
        ht.tensor_to_buffer(ex, torch.ones(0))
    with pytest.raises(RuntimeError, match="freed"):
        freed = hg.Executor("cpu")
        freed.cleanup()
        ht.tensor_to_buffer(freed, torch.ones(3))


def test_back(ex: hg.Executor) -> None:
    buffer = ex.from_numpy(np.arange(6, dtype=np.float32))
    x = ht.buffer_to_tensor(buffer, (2, 3), requires_grad=True)
    assert x.requires_grad
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    buffer.fill(9)
    assert x[0, 1] == 1
    with pytest.raises(ValueError, match="doesn't match"):
        ht.buffer_to_tensor(buffer, (7,))


def test_devices() -> None:
    x = torch.ones(2)
    assert ht.match_device(x) == "cpu"
    assert ht.match_device(torch.ones(2, device="meta")) == "cpu"
    assert ht.match_device(x, "metal") == "metal"
    with ht.create_executor_for_tensor(x) as executor:
        assert executor.backend == "cpu"
    with ht.create_executor_for_tensor(x, "interp") as executor:
        assert executor.backend == "interp"
    with pytest.raises(TypeError):
        ht.match_device(3)


def test_version() -> None:
    assert ht.__version__ == hg.__version__


def test_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import hologram_torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode
    assert "hologram_torch needs PyTorch" in done.stderr
    assert "pip install '.[torch]'" in done.stderr


@pytest.mark.skipif("cuda" not in devices(), reason="needs a CUDA device")
def test_gpus() -> None:
    """Tensors there are refused, and the executor is found that works on them; a buffer there holds a copy."""
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert ht.match_device(x.cuda()) == "cuda"
    with pytest.raises(ValueError, match="CPU"):
        ht.validate_tensor_compatible(x.cuda())
    with ht.create_executor_for_tensor(x.cuda()) as executor:
        assert executor.backend == "cuda"
        buffer, flat = ht.tensor_to_buffer(executor, x)
        x[0, 0] = 9
        assert flat.data_ptr() == x.data_ptr() and buffer.to_numpy().tolist() == [0, 1, 2, 3, 4, 5]
        ht.tensor_to_buffer(executor, x, buffer)
        found = ht.buffer_to_tensor(buffer, (2, 3), device="cuda", requires_grad=True)
        assert found.is_cuda and found.requires_grad and torch.equal(found.detach().cpu(), x)
        with pytest.raises(ValueError, match="CPU"):
            ht.tensor_to_buffer(executor, x.cuda())
