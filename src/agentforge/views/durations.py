"""Spans of time and amounts in words that people read at a glance."""


def span(seconds: float) -> str:
    """`0.4s`, `12s`, `3m 07s`, `2h 05m`, `3d 4h`."""
    if seconds < 0:
        seconds = 0.0
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours}h"


def age(seconds: float) -> str:
    """In one unit, as in `5m ago`."""
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit} ago"
    return f"{whole}s ago"


def money(usd: float) -> str:
    return f"${usd:.2f}" if usd >= 0.1 else f"${usd:.4f}"


def counted(number: int, noun: str) -> str:
    """`1 iteration`, `2 iterations`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
