"""The pages as a site: links lead somewhere, and no page, example, benchmark or public name is
missing."""

import re
from pathlib import Path

import pytest

import implicit_stepper as ist
import shapes

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ROOMS = [*ROOT.glob("implicit_stepper/**/README.md"), ROOT / "shapes" / "README.md"]
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOMS])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def without_code(text):
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def anchors(page):
    """Of the headings of a page, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Within the repository; those of the site's pages stay within docs/."""
    wrong = []
    for target in LINK.findall(without_code(page.read_text())):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        outside = page.is_relative_to(DOCS) and not file.is_relative_to(DOCS)
        if not file.exists() or outside or (anchor and anchor not in anchors(file)):
            wrong.append(target)
    assert wrong == []


def test_every_page_is_in_the_menu_of_the_site():
    menu = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    assert sorted(menu) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_every_decision_is_in_the_index():
    index = (DOCS / "index.md").read_text()
    assert [page.name for page in sorted(DOCS.glob("decisions/*.md")) if f"(decisions/{page.name})" not in index] == []


def test_every_public_name_is_in_the_reference_and_has_a_docstring():
    listed = re.findall(r"^::: (.+)$", (DOCS / "api.md").read_text(), flags=re.MULTILINE)
    names = {f"implicit_stepper.{name}" for name in ist.__all__ if name != "shapes"}
    names |= {f"shapes.{name}" for name in shapes.__all__ if name not in ("x", "y", "z")}
    assert set(listed) == names
    assert len(listed) == len(names)
    modules = {"implicit_stepper": ist, "shapes": shapes}
    assert [name for name in listed if not getattr(modules[name.split(".")[0]], name.split(".")[1]).__doc__] == []


def test_every_example_is_in_the_gallery_and_every_benchmark_is_evidence():
    gallery, evidence = ((DOCS / f"{name}.md").read_text() for name in ("gallery", "evidence"))
    assert [path.name for path in ROOT.glob("examples/*.py") if f"`examples/{path.name}`" not in gallery] == []
    pictures = {path.stem for path in ROOT.glob("examples/*.py")}
    films = pictures - {"complementarity_problem"}  # nothing moves
    shown = {file for file in re.findall(r"figures/gallery/(\w+\.\w+)\)", gallery)}
    assert shown == {f"{name}.png" for name in pictures} | {f"{name}.gif" for name in films}
    assert max(file.stat().st_size for file in (DOCS / "figures" / "gallery").iterdir()) <= 400_000
    assert [path.name for path in ROOT.glob("benchmarks/*.py") if path.name not in evidence] == []


def test_rows_of_the_papers_name_tests_that_exist():
    named, file = re.findall(r"`((?:tests/[\w/]+\.py)?::\w+)`", (DOCS / "rows.md").read_text()), ""
    assert len(named) > 20
    for found in named:
        path, name = found.split("::")
        file = path or file
        assert f"def {name}(" in (ROOT / file).read_text(), found
