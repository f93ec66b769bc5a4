"""Sphinx: how the documentation becomes a site.  tools/docs/make_site puts the pages together and runs it."""
from pathlib import Path

project = "gradus"
author = "the authors of gradus"
copyright = "the gradus authors"
extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
highlight_language = "text"
html_theme = "furo"
html_title = "gradus"
html_static_path = ["_static"]
html_css_files = ["gradus.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0062a3", "color-brand-content": "#0062a3"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_copy_source = False
smartquotes = False  # "batch" is a string
toc_object_entries = False  # a thousand functions in the tree beside every page take half of the time
html_show_sphinx = False
html_last_updated_fmt = None
copybutton_exclude = ".linenos, .gp, .go"
# Only signatures of C are highlighted: what is a link of gradus or an expression is no language that Pygments knows.
c_maximum_signature_line_length = 100
python_maximum_signature_line_length = 100


def setup(app):
    """Parameters of functions are nothing that somebody looks for."""
    from sphinx.domains.c import CDomain

    class C(CDomain):
        def get_objects(self):
            return (o for o in super().get_objects() if o[2] != "functionParam")

    app.add_domain(C, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
