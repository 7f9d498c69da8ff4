"""Third-party packages in the sandbox: `packages=` and `preimport=`, with numpy as the example."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgate import ConfigurationError, Runtime
from runtime.conftest import opened

pytestmark = pytest.mark.anyio

MEAN = "import numpy as np\nfloat(np.arange(5).mean())"
DRAW = (
    "import numpy as np, random\n[float(np.random.random()), float(np.random.default_rng().random()), random.random()]"
)


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("preimport", [(), ("numpy",)])
async def test_numpy_works(site_packages: str, tier: int, preimport: tuple[str, ...]) -> None:
    async with opened(packages=site_packages, preimport=preimport, tier=tier, pool_size=0) as runtime:
        run = await runtime.execute_code(MEAN)
        assert run.error is None, run.error
        assert run.value == 2.0
        draws = [(await runtime.execute_code(DRAW)).value for _ in range(3)]
        for numbers in zip(*draws, strict=True):
            assert len(set(numbers)) == 3, "every run draws its own"


async def test_without_packages_there_are_none(runtime: Runtime) -> None:
    run = await runtime.execute_code("import numpy")
    assert run.error is not None
    assert run.error.kind == "ModuleNotFoundError"


async def test_packages_are_read_only(site_packages: str) -> None:
    async with opened(packages=site_packages, pool_size=0) as runtime:
        run = await runtime.execute_code(
            "import numpy, os\ntry:\n    open(os.path.join(os.path.dirname(numpy.__file__), 'x'), 'w')\n"
            "except OSError as e:\n    r = 'refused'\nr"
        )
        assert run.value == "refused"


def test_an_unsafe_sandbox_takes_none(site_packages: str) -> None:
    with pytest.raises(ConfigurationError, match="leave packages and preimport out"):
        Runtime(sandbox="unsafe", packages=site_packages)


@pytest.fixture
def hidden_packages(tmp_path: Path) -> str:
    """A readable folder below one that only this user may enter."""
    folder = tmp_path / "hidden"
    (folder / "thing").mkdir(parents=True)
    (folder / "thing" / "__init__.py").write_text("answer = 42\n")
    folder.chmod(0o755)
    tmp_path.chmod(0o700)
    return str(folder)


async def test_a_folder_that_others_cannot_reach_works_in_tier_1(hidden_packages: str) -> None:
    async with opened(packages=hidden_packages, tier=1, pool_size=0) as runtime:
        assert (await runtime.execute_code("import thing\nthing.answer")).value == 42
