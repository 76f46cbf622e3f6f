"""Lines of deliveries, for `test_event_lines`."""

from agentforge.model import facts as f
from agentforge.model.delivery import DeliveredWork, DeliveryBase, PreparedDelivery

PLACE = "node=1 visit=1"
COMMIT = "1a2b3c4d5e6f" + "0" * 28

DELIVER_LINES: list[tuple[f.AnyFact, str, str | None]] = [
    (
        f.RepositorySeen(DeliveryBase("ab12", COMMIT, "refs/heads/main")),
        f"{PLACE} tree=ab12 commit=1a2b3c4d5e6f branch=refs/heads/main",
        None,
    ),
    (
        f.RepositorySeen(DeliveryBase(problem="no git")),
        f'{PLACE} problem="no git"',
        "build can't deliver: no git",
    ),
    (
        f.DeliverStarted("commit"),
        f"{PLACE} iter=2 deliver=commit attempt=1",
        "build 2/3 running deliver commit",
    ),
    (
        f.DeliverCompleted("prepare", prepared=PreparedDelivery()),
        f"{PLACE} iter=2 deliver=prepare attempt=1 status=succeeded",
        "build 2/3 completed deliver prepare",
    ),
    (
        f.DeliverFailed("push", message="no login"),
        f'{PLACE} iter=2 deliver=push attempt=1 status=failed error="no login"',
        "build 2/3 deliver push failed: no login",
    ),
    (
        f.DeliverLost("commit"),
        f"{PLACE} iter=2 deliver=commit attempt=1",
        "build 2/3 lost deliver commit (try 1)",
    ),
    (
        f.DeliverEnding("commit", reason="asked"),
        f'{PLACE} iter=2 deliver=commit attempt=1 reason="asked"',
        "build 2/3 stopping deliver commit: asked",
    ),
    (
        f.Delivered(DeliveredWork("commit", "committed", COMMIT, "main", count=3)),
        f"{PLACE} mode=commit status=committed paths=3 commit=1a2b3c4d5e6f branch=main",
        "build committed 3 paths as 1a2b3c4d5e6f on main",
    ),
    (
        f.Delivered(DeliveredWork("commit", "staged", count=1)),
        f"{PLACE} mode=commit status=staged paths=1",
        "build staged 1 path",
    ),
    (
        f.Delivered(DeliveredWork("files", "files", count=1)),
        f"{PLACE} mode=files status=files paths=1",
        "build left 1 path in the workspace",
    ),
    (
        f.Delivered(DeliveredWork("patch", "patched", patch="x.patch", count=1)),
        f"{PLACE} mode=patch status=patched paths=1 patch=x.patch",
        "build wrote 1 path to x.patch",
    ),
    (
        f.Delivered(DeliveredWork("pr", "pull_request", COMMIT, "feature/x", "https://h/1", count=1)),
        f"{PLACE} mode=pr status=pull_request paths=1 commit=1a2b3c4d5e6f branch=feature/x url=https://h/1",
        "build opened https://h/1 with 1 path",
    ),
    (
        f.Delivered(DeliveredWork("pr", "no_changes")),
        f"{PLACE} mode=pr status=no_changes paths=0",
        "build nothing changed, so nothing was delivered",
    ),
    (
        f.Delivered(DeliveredWork("pr", "not_delivered")),
        f"{PLACE} mode=pr status=not_delivered paths=0",
        "build a replay delivers nothing",
    ),
]
