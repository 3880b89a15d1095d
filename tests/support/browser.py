"""Debian's Chromium behind Playwright, which drives it; no browser is ever downloaded."""

import shutil
from pathlib import Path

from playwright.sync_api import Error, sync_playwright

# In a container: no sandbox, and /dev/shm is too small for Chromium's memory.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"]


class Browser:
    """One headless page; remembers every error it logged and every address it asked for."""

    def __init__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if program is None:
            raise RuntimeError("The page tests need Chromium: `make setup` installs it.")
        self._playwright = sync_playwright().start()
        try:
            self._chromium = self._playwright.chromium.launch(executable_path=program, args=FLAGS)
        except Error as error:
            self._playwright.stop()
            raise RuntimeError("Chromium did not start; `make setup` installs it.") from error
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.screen()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._chromium.close()
        self._playwright.stop()

    def screen(self, width=1280, height=900, dark=False, phone=False):
        """Go on with a fresh page on such a screen."""
        for context in self._chromium.contexts:
            context.close()
        context = self._chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            is_mobile=phone,
        )
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path):
        """Open a file and wait until it is loaded; forgets what the page before did."""
        self.errors.clear()
        self.requests.clear()
        self.page.goto(Path(path).resolve().as_uri())

    def run(self, expression):
        """Evaluate JavaScript in the page."""
        return self.page.evaluate(expression)

    def wait(self, expression):
        """Wait until JavaScript finds something true, at most half a minute."""
        self.page.wait_for_function(expression)

    def clean(self):
        """Whether no error was logged, and nothing but files and data asked for."""
        self.run("1")  # collects the events that are still under way
        asked = [url for url in self.requests if not url.startswith(("file:", "data:"))]
        return self.errors == [] and asked == []

    def accessible(self, role):
        """Names that a screen reader says for all elements of a role."""
        session = self.page.context.new_cdp_session(self.page)
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
        found = [node for node in nodes if node.get("role", {}).get("value") == role]
        return [node.get("name", {}).get("value") for node in found]

    def opening_time(self, path, tries):
        """Milliseconds until the page is loaded: the best of some, as the machine may be busy."""
        loaded, times = "performance.getEntriesByType('navigation')[0].loadEventEnd", []
        for _ in range(tries):
            self.open(path)
            self.wait(f"{loaded} > 0")
            times.append(self.run(loaded))
        return min(times)

    def _dialog(self, dialog):
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()
