"""The contracts of the core, under the name that programs also import them by."""

from agentforge.core.contracts import execute_contract

__all__ = ["execute_contract"]
