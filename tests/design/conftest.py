from tests.scratch import folder_in_memory
from tests.surface.conftest import project

__all__ = ["folder_in_memory", "project"]
