"""How the page looks: two sets of colours as data, and the style sheet that takes them by name."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DARK", "LIGHT", "sheet"]

LIGHT: Mapping[str, str] = {
    "page": "#f6f6f3", "surface": "#ffffff", "ink": "#1d1f23", "muted": "#595e66", "rule": "#d8d8d2",
    "accent": "#0b5fa5", "good": "#1a6e3c", "bad": "#a8281e", "warn": "#7d4e00", "warnback": "#fdf3dc",
    "model": "#848e9d", "tools": "#0a6ca8", "overhead": "#c4501b", "input": "#6a5bc4", "output": "#b06a00",
    "direct": "#b06000", "plan": "#4a1672", "code": "#1b84cc",
}  # fmt: skip
DARK: Mapping[str, str] = {
    "page": "#121418", "surface": "#1b1e24", "ink": "#eceef1", "muted": "#a9b0ba", "rule": "#383d46",
    "accent": "#7cc0f5", "good": "#7fd39b", "bad": "#ff9d90", "warn": "#f0bf6a", "warnback": "#33290f",
    "model": "#79828f", "tools": "#5ab4ec", "overhead": "#ff9466", "input": "#a195f0", "output": "#eeb04e",
    "direct": "#f0ac55", "plan": "#e9dcff", "code": "#3f9be3",
}  # fmt: skip
"""Texts have a contrast of 4.5 at least with what they stand on, shapes of 3; shapes that stand beside each other can
be told apart with each kind of colour blindness. The tests compute both."""

_PAGE = """\
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-behavior:auto}
body{margin:0;background:var(--page);color:var(--ink);font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Liberation Sans",Arial,sans-serif;overflow-wrap:anywhere}
main,.top,.foot{max-width:78rem;margin:0 auto;padding:0 clamp(1rem,3vw,2rem)}
.top{padding-top:clamp(1.5rem,4vw,3rem)}
.foot{padding-bottom:3rem;color:var(--muted);font-size:.875rem}
h1,h2,h3{line-height:1.2;text-wrap:balance;margin:0}
h1{font-size:clamp(1.6rem,4.5vw,2.4rem);letter-spacing:-.015em;max-width:30ch}
h2{font-size:1.45rem;letter-spacing:-.01em;margin:0 0 .75rem}
h3{font-size:1rem;margin:1.5rem 0 .5rem}
p,dl,ul,ol{margin:.5rem 0}
p,li,dd{max-width:72ch}
a{color:var(--accent);text-underline-offset:.15em}
a:focus-visible,.scrolled:focus-visible,summary:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
code,.words{font-family:ui-monospace,SFMono-Regular,Menlo,"Liberation Mono",monospace;font-size:.9em}
.eyebrow{margin:0 0 .5rem;color:var(--muted);font-size:.875rem;letter-spacing:.02em}
.lede{font-size:1.2rem;line-height:1.45;margin:.9rem 0 1.2rem;max-width:62ch}
.muted,.about{color:var(--muted)}
section{margin:clamp(2rem,5vw,3.25rem) 0 0}
.card{background:var(--surface);border:1px solid var(--rule);border-radius:.6rem;padding:clamp(.9rem,2.2vw,1.5rem)}
.alarm,.label-box{border:1px solid var(--warn);background:var(--warnback);border-radius:.6rem;padding:.7rem 1rem;
margin:1rem 0}
.alarm strong,.label-box strong{color:var(--warn)}
.alarm p,.label-box p{margin:.2rem 0}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.25rem;font-size:.9rem;margin:1rem 0 0}
.facts dt{color:var(--muted)}
.facts dd{margin:0}
nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;font-size:.95rem}
.verdicts{list-style:none;padding:0;margin:0}
.verdicts li{display:grid;grid-template-columns:minmax(11rem,17rem) 1fr;gap:.1rem 1.5rem;padding:.7rem 0;max-width:none;
border-top:1px solid var(--rule)}
.verdicts li:first-child{border-top:0;padding-top:0}
.verdicts li:last-child{padding-bottom:0}
.verdicts p{margin:0;max-width:none}
.tag{padding:0 .5rem;border:1px solid var(--rule);border-radius:1rem;
font-size:.8125rem;color:var(--muted)}
.tag.ours{border-color:var(--accent);color:var(--accent)}
.verdicts .side{grid-row:1/span 3;display:flex;flex-direction:column;align-items:flex-start;gap:.2rem .6rem}
.verdicts .says{font-weight:600}
.verdicts .figures{grid-column:2;color:var(--muted);font-size:.9rem}
.verdict{font-size:1.1rem;font-weight:600;margin:.25rem 0 .75rem}
.brief dt{font-weight:600;font-size:.9rem}
.brief dd{margin:0 0 .5rem;white-space:pre-line}
.left-out{font-size:.9rem;color:var(--muted)}
"""

_PLOTS = """\
figure{margin:1.25rem 0;min-width:0}
figcaption{font-weight:600;font-size:.95rem;margin:0 0 .4rem}
figcaption span{font-weight:400;color:var(--muted)}
.panels{display:grid;gap:1.5rem 2.25rem;grid-template-columns:minmax(0,1fr)}
.panels h3{font-size:.875rem;margin:0 0 .5rem;font-weight:600}
.panel,.shares{min-width:0}
.panels h3 span{font-weight:400;color:var(--muted)}
.plot{display:block;overflow:visible;font-size:.8125rem;font-variant-numeric:tabular-nums}
.plot text{fill:var(--ink);stroke:var(--surface);stroke-width:3px;paint-order:stroke;stroke-linejoin:round}
.plot .ours{font-weight:600}
.plot .tick{fill:var(--muted);font-size:.75rem}
.plot .wide{display:none;fill:var(--muted)}
.beside{display:none}
.grid{stroke:var(--rule);stroke-width:1}
.lane{stroke:var(--rule);stroke-width:1;stroke-dasharray:1 4}
.whisker{stroke:var(--ink);stroke-width:1.5}
.halo{stroke:var(--surface);stroke-width:4}
.hatch{stroke:var(--surface);stroke-width:2.4;opacity:.8}
.model{fill:var(--model)}.tools{fill:var(--tools)}.overhead{fill:var(--overhead)}
.input{fill:var(--input)}.output{fill:var(--output)}
.tools.hatched{fill:url(#hatch-tools)}.output.hatched{fill:url(#hatch-output)}
.mark{stroke:var(--surface);stroke-width:1}
.mark.direct{fill:var(--direct)}.mark.plan{fill:var(--plan)}.mark.code{fill:var(--code)}
.mark.peer{fill:var(--surface);stroke-width:2.5}
.peer.direct{stroke:var(--direct)}.peer.plan{stroke:var(--plan)}.peer.code{stroke:var(--code)}
.point{fill:var(--overhead);stroke:var(--surface);stroke-width:1}
.patterns{position:absolute}
.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;font-size:.875rem;margin:.25rem 0 1rem}
.legend li{display:flex;align-items:center;gap:.45rem}
.swatch{flex:none;overflow:visible}
@media (min-width:62rem){
.panels.two{grid-template-columns:repeat(2,minmax(0,1fr))}
}
@media (max-width:43.99rem){.shares{display:none}}
@media (min-width:44rem){.panels.many{grid-template-columns:repeat(2,minmax(0,1fr))}}
@media (max-width:22rem){.plot{font-size:.72rem}}
@media (min-width:70rem){
.plot .wide,.beside{display:inline}
.panels.many{grid-template-columns:1.55fr .7fr 1fr 1fr}
.plot.again .label{display:none}
}
"""

_TABLES = """\
.scrolled{overflow-x:auto;max-width:100%;margin:1rem 0;border:1px solid var(--rule);border-radius:.5rem;background:
linear-gradient(to left,var(--surface) 40%,transparent) right/3rem 100% no-repeat local,
linear-gradient(to left,var(--rule),transparent) right/.9rem 100% no-repeat scroll,var(--surface)}
table{border-collapse:collapse;width:100%;font-size:.875rem;line-height:1.4;font-variant-numeric:tabular-nums;
overflow-wrap:normal}
caption{text-align:left;font-weight:600;padding:.6rem .75rem;caption-side:top}
caption span{position:sticky;left:.75rem;display:inline-block;max-width:calc(100vw - 4rem)}
th,td{padding:.4rem .6rem;text-align:right;vertical-align:top;border-top:1px solid var(--rule)}
thead th{font-weight:600;vertical-align:bottom;color:var(--muted)}
tbody th{font-weight:400;text-align:left}
tbody .ours{font-weight:600}
.group th{background:var(--page);font-weight:600;color:var(--muted);text-align:left}
.text{text-align:left}
.notes{text-align:left;min-width:17rem;overflow-wrap:anywhere}
.number{white-space:nowrap}
.sub{display:block;white-space:nowrap;color:var(--muted);font-size:.8125rem;font-weight:400}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}.warn{color:var(--warn);font-weight:600}
.best{font-weight:700}
.first{position:sticky;left:0;background:var(--surface);min-width:9rem;max-width:14rem;overflow-wrap:anywhere;
box-shadow:1px 0 0 var(--rule)}
.narrow{min-width:6.5rem}
.said{position:sticky;left:9.5rem;max-width:80ch;overflow-wrap:anywhere}
.why{margin-left:.75rem}
.contest th,.contest td{padding:.4rem .5rem}
.measure{min-width:13rem}
.single .narrow{min-width:9rem}
details{margin:1rem 0}
summary{cursor:pointer;font-weight:600;font-size:.95rem}
@media (max-width:40rem){
.verdicts li{grid-template-columns:1fr}
.verdicts .figures{grid-column:1}
.verdicts .side{grid-row:auto;margin-bottom:.2rem;flex-direction:row;flex-wrap:wrap;align-items:baseline}
.facts{grid-template-columns:1fr;gap:0}
.facts dd{margin:0 0 .5rem}
.first{max-width:8.5rem;min-width:7rem}
.said{left:7.5rem;max-width:calc(100vw - 12.5rem)}
.why{display:block;margin:0}
th,td{padding:.4rem .55rem}
}
"""

_PRINT = """\
@media print{
@page{margin:12mm}
html{font-size:11px}
body{background:none}
main,.top,.foot{max-width:none;padding:0}
nav{display:none}
.card{border:0;padding:0}
.scrolled{overflow:visible;border:0}
table{font-size:8px;overflow-wrap:break-word}
.scrolled th,.scrolled td{padding:2px 3px}
.first,.notes,.measure,.narrow,.said{position:static;min-width:0;max-width:none}
.scrolled .first{min-width:8rem}
.number{white-space:normal}
thead{display:table-header-group}
tr,figure,.verdicts li{break-inside:avoid}
h2,h3,caption{break-after:avoid}
details{display:none}
.panels.two{grid-template-columns:repeat(2,minmax(0,1fr))}
.panels.many{grid-template-columns:1.55fr .7fr 1fr 1fr;gap:1rem}
.plot.again .label{display:none}
svg{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
"""


def _colours(colours: Mapping[str, str]) -> str:
    return ":root{" + ";".join(f"--{name}:{value}" for name, value in colours.items()) + "}\n"


def sheet() -> str:
    """The style sheet. Paper is always light."""
    dark = f"@media screen and (prefers-color-scheme:dark){{{_colours(DARK)}}}\n"
    return _colours(LIGHT) + dark + _PAGE + _PLOTS + _TABLES + _PRINT
