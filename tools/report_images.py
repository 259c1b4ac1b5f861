#!/usr/bin/env python3
"""Charts of a report page as PNG files, drawn by headless Chromium.

    tools/report_images.py runs/study/smollm2/report.html --output docs/images --prefix study-smollm2-

Checks the page too: exit code 1 where a script fails or writes an error, a chart stays empty, or the page is
wider than the window (--width 390: a phone's). Without --output nothing is written. Exit code 3: no Chromium.
"""

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

# Runs before the page's own scripts.
LISTEN = """<script>
window.pageErrors = [];
addEventListener("error", (event) => pageErrors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => pageErrors.push(String(event.reason)));
console.error = (...words) => pageErrors.push(words.join(" "));
</script>"""

# Runs behind them: every chart on the page's own ground, and whether anything is on it.
TELL = """<script>
addEventListener("load", () => setTimeout(() => {
  const ground = getComputedStyle(document.body).backgroundColor;
  const charts = [...document.querySelectorAll("canvas")].map((canvas) => {
    const copy = document.createElement("canvas");
    copy.width = canvas.width;
    copy.height = canvas.height;
    const context = copy.getContext("2d");
    context.fillStyle = ground === "rgba(0, 0, 0, 0)" ? "white" : ground;
    context.fillRect(0, 0, copy.width, copy.height);
    let drawn = false;
    if (canvas.width > 0 && canvas.height > 0) {
      const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      drawn = pixels.some((value, i) => i % 4 === 3 && value > 0);
      context.drawImage(canvas, 0, 0);
    }
    const titles = [...document.querySelectorAll("h1, h2, h3")].filter(
      (title) => title.compareDocumentPosition(canvas) & Node.DOCUMENT_POSITION_FOLLOWING);
    return { title: titles.length ? titles.at(-1).textContent : "chart", drawn, png: copy.toDataURL("image/png") };
  });
  parent.postMessage({ errors: pageErrors, charts, width: document.documentElement.scrollWidth, window: innerWidth }, "*");
}, 200));
</script>"""

# A frame is as narrow as asked; a window of headless Chromium is never below 500 pixels.
FRAME = """<!doctype html><meta charset="utf-8"><iframe style="border: 0; width: %dpx; height: 900px"></iframe>
<script type="application/json" id="told"></script>
<script>
addEventListener("message", (event) => {
  document.getElementById("told").textContent = JSON.stringify(event.data).replaceAll("<", "\\\\u003c");
});
document.querySelector("iframe").srcdoc = %s;
</script>"""


def find_browser():
    named = os.environ.get("CHROMIUM", "")
    return next((path for name in (named, *BROWSERS) if name and (path := shutil.which(name))), None)


def look_at(page, width, browser):
    """What the page tells of itself; None where it tells nothing."""
    inner = page.replace("<head>", "<head>" + LISTEN, 1).replace("</body>", TELL + "</body>", 1)
    frame = FRAME % (width, json.dumps(inner).replace("<", "\\u003c"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "frame.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(frame)
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--force-device-scale-factor=1",
                   f"--user-data-dir={folder}/profile", f"--window-size={max(width, 500)},1000",
                   "--virtual-time-budget=8000", "--dump-dom", "file://" + path]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120, check=False)
    told = re.search(r'id="told">(.*?)</script>', run.stdout.decode("utf-8"), re.DOTALL)
    return json.loads(told.group(1)) if told and told.group(1) else None


def file_name(title):
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "chart"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", help="a report page of this program")
    parser.add_argument("--output", help="folder for the charts")
    parser.add_argument("--prefix", default="", help="put before the files' names")
    parser.add_argument("--width", type=int, default=860, help="of the window, in pixels")
    options = parser.parse_args()
    browser = find_browser()
    if browser is None:
        print("no Chromium: install it, or name it in CHROMIUM", file=sys.stderr)
        return 3
    with open(options.page, encoding="utf-8") as file:
        told = look_at(file.read(), options.width, browser)
    if told is None:
        print(f"{options.page}: the page did not load", file=sys.stderr)
        return 1
    faults = [f"script error: {error}" for error in told["errors"]]
    faults += [f"the chart '{chart['title']}' is empty" for chart in told["charts"] if not chart["drawn"]]
    faults += [] if told["charts"] else ["there are no charts"]
    if told["width"] > told["window"]:
        faults.append(f"{told['width']} pixels wide in a window of {told['window']}")
    for fault in faults:
        print(f"{options.page}: {fault}", file=sys.stderr)
    for chart in told["charts"] if options.output else []:
        os.makedirs(options.output, exist_ok=True)
        path = os.path.join(options.output, options.prefix + file_name(chart["title"]) + ".png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(chart["png"].split(",", 1)[1]))
        print(path)
    print(f"{options.page}: {len(told['charts'])} charts, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
