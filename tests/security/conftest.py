from tests.surface.conftest import project

__all__ = ["project"]
