"""A review service in thirty lines: it reviews each delivery once, however often it is sent."""

import hashlib
import hmac
import json
import os
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["REVIEW_SECRET"].encode()
reviews: dict[str, str] = {}


class Review(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        key, time_sent = self.headers["Idempotency-Key"], self.headers["AgentForge-Timestamp"]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signature = hmac.new(SECRET, f"{time_sent}.{key}.".encode() + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(self.headers["AgentForge-Signature"] or "", f"v1={signature}"):
            self.send_error(403, "The signature is wrong")
            return
        iteration, is_repeat = json.loads(body)["iteration"], key in reviews
        self.log_message("%s iteration %d: %s", key, iteration, "sent again" if is_repeat else "new")
        review = reviews.setdefault(key, f"Review of draft {iteration}: name each fix.")
        time.sleep(0 if is_repeat else 20)  # A review takes a while; a repeat is answered at once.
        with suppress(OSError):  # The caller may be gone.
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"context": review}).encode())


ThreadingHTTPServer(("127.0.0.1", 8765), Review).serve_forever()
