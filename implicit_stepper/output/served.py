"""A run in the browser of this machine."""

from __future__ import annotations

import http.server
import threading
import webbrowser

from shapes.arguments import flag

from ..run.trajectory import Trajectory
from ..scene.scene import Scene
from . import viewer


class View:
    """A page that is served to this machine alone, at `url`, until it is closed."""

    def __init__(self, page: str):
        served = page.encode("utf-8")

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802  (the name that http.server asks for)
                # another name for this address is one that a page from elsewhere made up
                if self.headers.get("Host") != f"127.0.0.1:{self.server.server_port}":
                    self.send_error(403)
                elif self.path != "/":
                    self.send_error(404)
                else:
                    self.send_response(200)
                    self.send_header("Content-Type", "text/html; charset=utf-8")
                    self.send_header("Content-Length", str(len(served)))
                    self.end_headers()
                    self.wfile.write(served)

            def log_message(self, format, *arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<View at {self.url}>"

    def wait(self) -> None:
        """Returns at Ctrl-C."""
        try:
            while self._thread.is_alive():
                self._thread.join(1.0)
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Ends the service."""
        self._server.shutdown()
        self._server.server_close()


def view(trajectory: Trajectory, *, scene: Scene | None = None, wait: bool = True, browser: bool = True) -> View:
    """Shows a run in a browser: the page of `trajectory.plot.page`, served to this machine alone
    until Ctrl-C, or if it does not `wait`, as in notebooks, until the `View` is closed or the
    process ends. Without a `browser` it opens none, and only says where the page is.

    Raises `ImportError` without matplotlib, `ValueError` for a run without steps."""
    flag("wait", wait)
    flag("browser", browser)
    shown = View(viewer.page(trajectory, scene))
    print(f"{shown.url}{' until Ctrl-C' if wait else ''}", flush=True)
    if browser:
        webbrowser.open(shown.url)
    if wait:
        shown.wait()
    return shown
