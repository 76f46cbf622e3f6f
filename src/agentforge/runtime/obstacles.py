"""Restores the folders of a run that an agent replaced: what is in their place is refused."""

from agentforge.model.errors import StorageFailed
from agentforge.runtime.left_files import Refuse
from agentforge.system import files


def ensure_folder(path: str, run_dir: str, refuse: Refuse) -> bool:
    """Create the folder, also if something else is on the way to it; False if it exists."""
    try:
        return files.make_dir(path)
    except StorageFailed:
        obstacle = files.obstacle(path, below=run_dir)
        if not obstacle:
            raise
        refuse(obstacle, "it is in the place of a folder of the run")
        return files.make_dir(path)
