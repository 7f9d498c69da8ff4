"""The look of the timeline page: one style sheet. Colours reach 4.5:1 for text and 3:1 for bars, in light and dark."""

from __future__ import annotations

from typing import Final

__all__ = ["STYLE"]

STYLE: Final = """
:root { color-scheme: light dark;
  --paper: #fff; --ink: #1b2126; --soft: #57626c; --line: #d9dee3; --band: #f5f7f8; --link: #0b5cad;
  --good: #2e7d4f; --bad: #b3261e; --unknown: #9a5b00; --idle: #64707a; --gem: #6a3fb5; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14181b; --ink: #e7eaec; --soft: #a3adb5; --line: #323a41; --band: #1c2226; --link: #7db7f2;
  --good: #4cae74; --bad: #f2766d; --unknown: #dd9a33; --idle: #8c98a1; --gem: #b99af0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 24px; line-height: 1.25; margin: 0 0 6px; text-wrap: balance; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 32px 0 8px; }
a { color: var(--link); text-decoration: none; }
a:hover, a:focus-visible { text-decoration: underline; }
code, pre { font: 13px/1.45 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
small, code { color: var(--soft); font-size: 13px; }
pre { color: var(--ink); background: var(--band); border: 1px solid var(--line); border-radius: 4px; margin: 0;
  padding: 8px 10px; max-height: 320px; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.aloud { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.phone { display: none; }
.goal { margin: 0 0 6px; color: var(--soft); overflow-wrap: anywhere; }
.headline { margin: 10px 0; padding: 8px 12px; background: var(--band); border-left: 4px solid var(--good); }
.headline.bad { border-color: var(--bad); }
.gem::before { content: "◆"; color: var(--gem); font-style: normal; margin-right: 0.3em; }
.good .mark { color: var(--good); } .bad .mark, .faults b { color: var(--bad); }
.unknown .mark { color: var(--unknown); } .idle .mark { color: var(--idle); }
.mark { display: inline-block; width: 1.25em; font-weight: 700; }
.why, .left { color: var(--soft); overflow-wrap: anywhere; }
.path { margin: 10px 0 18px; }
.path ol { display: inline; list-style: none; margin: 0; padding: 0; }
.path small { white-space: nowrap; }
.path li { display: inline; overflow-wrap: anywhere; }
.path li:not(:last-child)::after { content: " → "; color: var(--soft); }

table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th { text-align: left; font-weight: 400; }
thead th { color: var(--soft); font-size: 13px; padding: 0 8px 4px 0; }
tbody { border-top: 1px solid var(--line); }
td, tbody th { padding: 4px 8px 4px 0; vertical-align: middle; }
.wave { width: 48px; color: var(--soft); font-size: 13px; font-variant-numeric: tabular-nums; }
tbody tr:not(:first-child) > .wave { clip-path: inset(50%); }
.step { width: 30%; overflow-wrap: anywhere; }
.took { width: 132px; padding: 4px 0 4px 12px; font-variant-numeric: tabular-nums; }
.took small { display: block; line-height: 1.3; overflow-wrap: anywhere; }
.critical .step a { font-weight: 650; }
.bars { position: relative; padding: 4px 0; }
tbody .bars { background: repeating-linear-gradient(to right, var(--line) 0 1px, transparent 1px var(--grid)); }
thead .bars { height: 20px; }
thead .bars i { position: absolute; bottom: 3px; font-style: normal; padding-left: 3px; white-space: nowrap;
  border-left: 1px solid var(--line); line-height: 1; }
thead .bars i.last { transform: translateX(-100%); padding: 0 3px 0 0; border: 0 solid var(--line);
  border-right-width: 1px; }
tbody .bars:has(> .why) { background: none; }
.bars .why { font-size: 13px; padding-left: 2px; }
.bar { position: absolute; top: calc(50% - 7px); height: 14px; min-width: 3px; border-radius: 2px;
  background-color: var(--idle); print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.bar.good { background-color: var(--good); }
.bar.bad { background-color: var(--bad); background-image: repeating-linear-gradient(135deg,
  transparent 0 4px, var(--paper) 4px 5.5px); }
.bar.unknown { background-color: var(--unknown); background-image: repeating-linear-gradient(90deg,
  transparent 0 4px, var(--paper) 4px 6px); }
.spine { position: absolute; top: calc(50% + 8px); height: 3px; min-width: 3px; background: var(--gem);
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.waited { position: absolute; top: calc(50% - 1px); border-top: 2px dotted var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 12px 0; color: var(--soft); font-size: 13px; }
.legend .bar, .legend .waited { position: static; display: inline-block; width: 22px; height: 10px; }
.legend i { margin-right: 4px; } .legend .gem { margin: 0; }
.legend .waited { height: 0; vertical-align: middle; }

details { border-top: 1px solid var(--line); }
details:last-of-type { border-bottom: 1px solid var(--line); }
summary { padding: 7px 0; cursor: pointer; overflow-wrap: anywhere; }
summary b { font-weight: 600; }
dl { display: grid; grid-template-columns: 110px minmax(0, 1fr); gap: 4px 12px; margin: 2px 0 14px 18px;
  scroll-margin-top: 60px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
dl .left { margin: 2px 0 0; font-size: 13px; }
.calls { margin: 0 0 14px 18px; overflow-x: auto; }
.calls table { table-layout: auto; width: auto; min-width: 480px; font-size: 13px; }
.calls td, .calls thead th { padding: 2px 18px 2px 0; vertical-align: top; }
.faults { padding-left: 20px; } .faults li { margin: 6px 0; overflow-wrap: anywhere; }

@media (max-width: 720px) {
  main { padding: 18px 14px 40px; }
  h1 { font-size: 20px; }
  table[role=table] thead .wave, table[role=table] thead .step, table[role=table] thead .took { display: none; }
  table[role=table], [role=table] thead, [role=table] tbody { display: block; }
  [role=table] thead tr, [role=table] thead .bars { display: block; width: 100%; }
  [role=table] tbody tr { display: grid; grid-template-columns: minmax(0, 1fr) auto; padding: 5px 0 3px; }
  [role=table] tbody tr > * { display: block; width: auto; padding: 0; }
  [role=table] tbody .wave { display: none; }
  [role=table] tbody tr:first-child .wave { display: block; grid-column: 1 / -1; }
  [role=table] tbody .bars { grid-column: 1 / -1; grid-row: 3; min-height: 22px; padding: 4px 0; }
  [role=table] tbody .took { padding-left: 12px; text-align: right; }
  .phone { display: inline; }
  dl { grid-template-columns: minmax(0, 1fr); margin-left: 0; gap: 0; }
  dd { margin-bottom: 6px; }
  .calls { margin-left: 0; }
}
@media print { details { break-inside: avoid; } pre { max-height: none; } }
"""
