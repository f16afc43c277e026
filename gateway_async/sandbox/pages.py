"""The pages that a shopper sees: the loading page of section 4.1, and the payment page.

Every text is escaped where it is set, for HTML and for script.
"""

import html
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
*{{box-sizing:border-box}}
body{{margin:0;min-height:100vh;display:grid;place-items:center;background:#eef1f6;color:#1c2330;
font:16px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;padding:1rem}}
main{{width:100%;max-width:27rem;background:#fff;border-radius:14px;padding:1.75rem;
box-shadow:0 10px 30px #1c233018;overflow-wrap:anywhere}}
h1{{font-size:1.25rem;margin:0 0 .75rem}}
p{{margin:.5rem 0}}
.badge{{display:inline-block;margin:0 0 1rem;padding:.15rem .6rem;border-radius:99px;
background:#fff1cc;color:#6b4a00;font-size:.8rem}}
.amount{{font-size:2rem;font-weight:700;margin:0 0 1rem;letter-spacing:-.02em}}
.amount small{{font-size:1rem;color:#5b6577;letter-spacing:0}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:.35rem 1rem;margin:0 0 1.5rem;
padding:1rem 0;border:solid #e3e7ee;border-width:1px 0;font-size:.92rem}}
dt{{color:#5b6577}}
dd{{margin:0;text-align:right;white-space:pre-line}}
form{{display:grid;gap:.6rem}}
button,.button{{display:block;width:100%;padding:.8rem;border:1px solid #ccd3df;border-radius:10px;
background:#fff;color:inherit;font:inherit;font-weight:600;text-align:center;
text-decoration:none;cursor:pointer}}
button:hover,.button:hover{{border-color:#8893a7}}
button.main,.button.main{{background:#1f5eff;border-color:#1f5eff;color:#fff}}
button.main:hover,.button.main:hover{{background:#174bd0}}
button.quiet{{border-color:transparent;color:#5b6577;font-weight:400}}
.spin{{width:2.2rem;height:2.2rem;margin:.5rem auto 1rem;border:4px solid #dbe2ef;
border-top-color:#1f5eff;border-radius:50%;animation:turn 1s linear infinite}}
.back{{margin-top:1.25rem}}
.loading{{text-align:center}}
@keyframes turn{{to{{transform:rotate(1turn)}}}}
</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

_LOADING = """<div class="loading"><div class="spin"></div>
<p>Taking you to the payment page.</p></div>
<form id="checkout" method="post" action="{action}" accept-charset="utf-8"></form>
<script>
window.addEventListener("load", function () {{
  var inputs = {inputs};
  var form = document.getElementById("checkout");
  Object.keys(inputs).forEach(function (name) {{
    var input = document.createElement("input");
    input.type = "hidden";
    input.name = name;
    input.value = inputs[name];
    form.appendChild(input);
  }});
  HTMLFormElement.prototype.submit.call(form);
}});
</script>
<noscript><p>This page needs a script to go on.</p></noscript>"""

_BADGE = '<p class="badge">Sandbox: no money moves here</p>'
_PAYMENT = """{badge}
<h1>Pay <bdi>{website}</bdi></h1>
<p class="amount">{amount} <small>{currency}</small></p>
<dl>
{rows}
</dl>
<form method="post" action="{action}">
<button class="main" name="choice" value="pay">Pay</button>
<button name="choice" value="decline">Decline</button>
<button class="quiet" name="choice" value="leave">Leave without paying</button>
</form>"""
_ROW = "<dt>{}</dt><dd>{}</dd>"
_MESSAGE = """{badge}
<h1>{title}</h1>
<p>{text}</p>"""
_LINK = '<p class="back"><a class="button main" href="{}">Back to the shop</a></p>'


def _page(title: str, body: str) -> str:
    return _FRAME.format(title=html.escape(title), body=body)


def _script_value(value: object) -> str:
    """Write a value for a script; no text can end the script or open a comment."""
    text = json.dumps(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def loading_page(action: str, inputs: "Mapping[str, str]") -> str:
    """Return the page that forwards the shopper to `action` with the inputs."""
    return _page(
        "Loading",
        _LOADING.format(action=html.escape(action), inputs=_script_value(dict(inputs))),
    )


def payment_page(  # the parts of the page
    *,
    action: str,
    website: str,
    amount: str,
    currency: str,
    rows: "Sequence[tuple[str, Sequence[Sequence[str]]]]",
) -> str:
    """Return the page on which the shopper pays, declines or leaves.

    Args:
        action: Where the choice is sent.
        website: Who is paid.
        amount: How much.
        currency: Currency code.
        rows: What else is shown, each a name and lines of parts; rows without any are left out.
    """
    parts = {"action": action, "website": website, "amount": amount, "currency": currency}
    shown = (_ROW.format(html.escape(name), _lines(lines)) for name, lines in rows if any(lines))
    escaped = {name: html.escape(value) for name, value in parts.items()}
    body = _PAYMENT.format(badge=_BADGE, rows="\n".join(shown), **escaped)
    return _page("Sandbox payment", body)


def _lines(lines: "Sequence[Sequence[str]]") -> str:
    # Each part is isolated: one that turns the direction of writing must not turn its neighbours.
    parts = ((f"<bdi>{html.escape(part)}</bdi>" for part in line) for line in lines)
    return "\n".join(" · ".join(line) for line in parts)


def message_page(title: str, text: str, *, back: str = "") -> str:
    """Return a page that says one thing, with a link to the shop where there is one."""
    body = _MESSAGE.format(badge=_BADGE, title=html.escape(title), text=html.escape(text))
    return _page(title, body + (_LINK.format(html.escape(back)) if back else ""))
