#!/usr/bin/env python3
"""The built site in headless Chromium, from its files: narrow and wide, dark and light, by keyboard alone, and with axe.

usage: browser.py SITE   77 (skipped) where Chromium is missing, or 1 if IOBIND_REQUIRE, a list, names site
"""
import os
import pathlib
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".runtime/python-site"))
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-prefers-reduced-motion"]
# One page of each kind: the front page, a section, a guide with code, wide tables, a reference of each language, a file, a decision.
KINDS = ["index", "guides/index", "quickstart", "tool", "crossings", "reference/c/binding", "reference/cpp/iobind", "reference/python",
         "reference/java", "javadoc/io/github/iobind/api/OrtIoBindingFFM", "javadoc/index", "source/examples/quickstart.c", "decisions/0001-interface",
         "search", "genindex"]
# What axe finds: rule, element, what to do; and how many rules held. Only these come back: all that passed is megabytes.
AXE = """const done = arguments[arguments.length - 1];
axe.run({resultTypes: ['violations']}).then(result => done([result.violations.flatMap(rule => rule.nodes.map(
  node => [rule.id, node.html.slice(0, 160), node.failureSummary])), result.passes.length]));"""
WIDTHS = {"narrow": 360, "wide": 1440}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(1 if "site" in os.environ.get("IOBIND_REQUIRE", "").split(",") else 77)


class Browser(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in FLAGS:
            options.add_argument(flag)
        cls.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        cls.driver.set_script_timeout(300)
        cls.axe = next((ROOT / ".runtime/python-site").glob("axe*/axe.min.js")).read_text(encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()

    def open(self, page, width=1440, scheme="light"):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme},
                                                                               {"name": "prefers-reduced-motion", "value": "reduce"}]})
        self.driver.get(f"{VERSION.as_uri()}/{page}.html")

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self, expression):
        return self.driver.execute_script(f"const focused = document.activeElement; return {expression}")

    def test_no_page_scrolls_sideways(self):
        for page in KINDS:
            for name, width in WIDTHS.items():
                with self.subTest(page=page, width=name):
                    self.open(page, width)
                    self.assertLessEqual(self.driver.execute_script("return document.documentElement.scrollWidth"), width)

    def test_axe_finds_nothing(self):
        for page in KINDS:
            for scheme, width in (("light", "wide"), ("dark", "narrow"), ("dark", "wide")):
                with self.subTest(page=page, scheme=scheme, width=width):
                    self.open(page, WIDTHS[width], scheme)
                    self.driver.execute_script(self.axe)
                    found, passes = self.driver.execute_async_script(AXE)
                    self.assertGreater(passes, 10)
                    self.assertEqual(found, [])

    def test_the_scheme_follows_the_system(self):
        colours = set()
        for scheme in ("light", "dark"):
            self.open("quickstart", scheme=scheme)
            colours.add(self.driver.execute_script("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(colours), 2)

    def test_the_first_key_leads_to_the_content(self):
        for width in WIDTHS.values():
            self.open("quickstart", width)
            self.press(Keys.TAB)
            self.assertIn("skip", self.focused("focused.textContent").lower())
            self.press(Keys.ENTER)
            self.press(Keys.TAB)
            self.assertTrue(self.focused("document.querySelector('main').contains(focused)"))

    def test_the_focus_is_visible_everywhere(self):
        for width in WIDTHS.values():
            self.open("quickstart", width)
            seen = 0
            for _ in range(40):
                self.press(Keys.TAB)
                shown = self.focused("[focused.tagName, focused.outerHTML.slice(0, 120), focused.getClientRects().length, "
                                     "getComputedStyle(focused).outlineStyle, getComputedStyle(focused).boxShadow]")
                if shown[0] == "BODY":
                    break
                seen += 1
                self.assertTrue(shown[2], shown)
                self.assertTrue(shown[3] != "none" or shown[4] != "none", shown)
            self.assertGreater(seen, 8)

    def test_search_by_keyboard(self):
        for width in WIDTHS.values():
            self.open("quickstart", width)
            webdriver.ActionChains(self.driver).key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
            self.wait(lambda: self.focused("focused.name") == "q", "Ctrl+K leads to the field of the search")
            self.press("iobind_binding_run", Keys.ENTER)
            self.wait(lambda: "search.html" in self.driver.current_url, "the search opens")
            found = self.wait(lambda: self.driver.execute_script("return document.querySelector('#search-results li a')?.href"), "the search finds something")
            self.assertRegex(found, r"reference/c/binding\.html#c\.iobind_binding_run$")
            for _ in range(80):
                self.press(Keys.TAB)
                if self.focused("focused.href") == found:
                    break
            self.press(Keys.ENTER)
            self.wait(lambda: self.driver.current_url.split("?")[0].endswith("reference/c/binding.html") or "#c.iobind_binding_run" in self.driver.current_url, "the result opens")

    def test_the_menu_of_a_narrow_page_by_keyboard(self):
        self.open("quickstart", 360)
        for _ in range(10):
            self.press(Keys.TAB)
            if "primary-toggle" in self.focused("focused.className"):
                break
        self.press(Keys.ENTER)
        self.wait(lambda: self.driver.execute_script("return document.querySelector('dialog[open]') !== null"), "the menu opens")
        self.press(Keys.TAB)
        self.assertTrue(self.focused("document.querySelector('dialog[open]').contains(focused)"))
        self.press(Keys.ESCAPE)
        self.wait(lambda: self.driver.execute_script("return document.querySelector('dialog[open]') === null"), "Escape closes the menu")

    def test_the_selector_of_versions(self):
        self.open("reference/c/binding")
        shown = self.driver.execute_script("const select = document.querySelector('.versions select'); return [select.value, select.offsetWidth > 0]")
        self.assertEqual(shown, [VERSION.name, True])

    def wait(self, condition, what):
        """Until it is so; the limit only ends a test that would never end."""
        return WebDriverWait(self.driver, 120).until(lambda _: condition(), what)


if __name__ == "__main__":
    if not CHROMIUM or not DRIVER:
        skip("the test needs Chromium and its driver (scripts/install-packages site)")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        from selenium.webdriver.common.keys import Keys
        from selenium.webdriver.support.ui import WebDriverWait
    except ImportError:
        skip("the test needs Selenium (scripts/get-python --site)")
    VERSION = next((path.parent for path in pathlib.Path(sys.argv.pop(1)).resolve().glob("*/objects.inv")), None)
    if VERSION is None:
        skip("the site was not built (site.build says why)")
    unittest.main()
