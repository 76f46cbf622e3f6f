"""How OpenAI's formats refuse a request."""

from agentforge.testing.model_server.script import Fault
from agentforge.testing.model_server.wire import JSON, text_of_fault

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_exceeded",
}


def refusal(fault: Fault) -> JSON:
    kind = fault.type or TYPES.get(fault.status, "server_error")
    error = {"message": text_of_fault(fault), "type": kind, "param": None, "code": kind, **fault.details}
    return {"error": error}
