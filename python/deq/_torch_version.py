"""Whether the torch that is installed is the one that the compiled core was built with."""

# The release that pyproject.toml pins: python/CMakeLists.txt refuses to build a wheel with another.
BUILT_WITH = "2.11"


def check(installed: str) -> None:
    """A compiled core fits one minor release of torch: with another it would crash."""
    if installed.split(".")[:2] != BUILT_WITH.split("."):
        raise ImportError(
            f"this libdeq was built for torch {BUILT_WITH}, and torch {installed} is installed: "
            f'run `python -m pip install "torch=={BUILT_WITH}.*"`, or install the libdeq for your torch.'
        )
