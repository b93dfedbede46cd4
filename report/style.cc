#include "report/style.h"

namespace elastiq {

std::string_view report_style() {
  return R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#16202b;--soft:#5b6875;--line:#dfe4ea;--grid:#e9edf1;
--float:#6b7683;--ptq:#0072b2;--qat:#d55e00;--g0:#0072b2;--g1:#e69f00;--g2:#009e73;--g3:#cc79a7;--g4:#8a95a1;
--b0:#eaf3fb;--b1:#c7def3;--b2:#9bc4e8;--b3:#66a4d9;--b4:#3a82c2;--b5:#1f619f;--b6:#123f6d;--n-low:#16202b;--n-high:#fff}
@media (prefers-color-scheme:dark){:root{--page:#0f1419;--card:#181f27;--ink:#e6ebf0;--soft:#98a4b0;--line:#2b3540;--grid:#252e38;
--float:#a4afba;--ptq:#56b4e9;--qat:#f0803c;--g0:#56b4e9;--g1:#e69f00;--g2:#27b48c;--g3:#d68fb5;--g4:#7d8894;
--b0:#16293a;--b1:#1c3e5a;--b2:#24557e;--b3:#3270a6;--b4:#4f90ca;--b5:#83b5e1;--b6:#bcd8f1;--n-low:#e6ebf0;--n-high:#0f1419}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1140px;margin:0 auto;padding:36px 24px 64px}
header h1{margin:0;font-size:27px;line-height:1.25;letter-spacing:-.01em;overflow-wrap:anywhere}
header p{margin:6px 0 0;color:var(--soft);overflow-wrap:anywhere}
h2{font-size:18px;margin:40px 0 12px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(210px,1fr));gap:14px;margin-top:24px}
.tile,figure,.panel{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:14px 16px;border-top:4px solid var(--float)}
.tile.ptq{border-top-color:var(--ptq)}.tile.qat{border-top-color:var(--qat)}
.tile h3{margin:0;font-size:14px;font-weight:600;overflow-wrap:anywhere}
.tile .kind{float:right;color:var(--soft);font-weight:400;margin-left:8px}
.tile .big{font-size:26px;font-weight:650;line-height:1.3;margin:4px 0 2px;letter-spacing:-.01em}
.tile dl{display:grid;grid-template-columns:auto auto;gap:1px 10px;margin:6px 0 0;font-size:13px}
.tile dt{color:var(--soft)}.tile dd{margin:0;text-align:right}
.panel{padding:4px 16px 10px;overflow-x:auto}
ul.findings{margin:14px 0 0;padding:0;list-style:none}
ul.findings li{padding:8px 14px;margin-top:6px;background:var(--card);border:1px solid var(--line);border-left:4px solid var(--ptq);border-radius:6px}
ul.findings li.tie{border-left-color:var(--float)}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th,td{padding:7px 10px;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:2px}
thead th{color:var(--soft);font-weight:600;border-bottom:1px solid var(--line)}
tbody tr:last-child td,tbody tr:last-child th{border-bottom:0}
tbody th{font-weight:500}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:16px}
figure{margin:0;padding:16px 18px 12px;min-width:0}
figure.wide{grid-column:1/-1}
figcaption{margin-bottom:10px}figcaption b{display:block;font-size:15px}figcaption span{color:var(--soft);font-size:13px}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font-size:12.5px;fill:var(--ink)}svg .tick{fill:var(--soft);font-size:11.5px}svg .axis{fill:var(--soft);font-size:12px}
svg .value{font-weight:600}svg .incell{font-size:11px}
.grid{stroke:var(--grid);stroke-width:1}
.reference{stroke:var(--float);stroke-width:1.2;stroke-dasharray:4 4}
.spread{stroke:var(--soft);stroke-width:1.2;opacity:.55}
.whisker{stroke-width:3.5;stroke-linecap:round;opacity:.55}
.mark{stroke:var(--card);stroke-width:1.5}
.k-float{fill:var(--float)}.k-ptq{fill:var(--ptq)}.k-qat{fill:var(--qat)}
.s-float{stroke:var(--float)}.s-ptq{stroke:var(--ptq)}.s-qat{stroke:var(--qat)}
.g0{fill:var(--g0)}.g1{fill:var(--g1)}.g2{fill:var(--g2)}.g3{fill:var(--g3)}.g4{fill:var(--g4)}
.b0{fill:var(--b0)}.b1{fill:var(--b1)}.b2{fill:var(--b2)}.b3{fill:var(--b3)}.b4{fill:var(--b4)}.b5{fill:var(--b5)}.b6{fill:var(--b6)}
svg .n0,svg .n1,svg .n2,svg .n3{fill:var(--n-low)}svg .n4,svg .n5,svg .n6{fill:var(--n-high)}
.curve{fill:none;stroke-width:2;stroke-linejoin:round}
.t0{stroke:var(--qat)}.t1{stroke:var(--ptq)}.t2{stroke:var(--g2)}.t3{stroke:var(--g3)}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin:0 0 8px;padding:0;list-style:none;font-size:12.5px;color:var(--soft)}
.legend svg{display:inline-block;width:12px;height:12px;vertical-align:-1px;margin-right:6px}
details{margin-top:10px;font-size:13px}summary{cursor:pointer;color:var(--soft)}summary:focus-visible{outline:2px solid var(--ptq);outline-offset:2px}
details .scroll{overflow-x:auto}
pre{margin:8px 0 4px;padding:12px 14px;background:var(--page);border-radius:6px;overflow-x:auto;font:12.5px/1.5 ui-monospace,"DejaVu Sans Mono",monospace}
.note{color:var(--soft);font-size:13px;margin:10px 2px 0}
@media print{body{background:#fff;font-size:11px}main{max-width:none;padding:0}figure,.tile,.panel{break-inside:avoid}}
)css";
}

}  // namespace elastiq
