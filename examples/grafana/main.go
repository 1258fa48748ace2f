// Grafana prints a Grafana dashboard of what otellimit measures and what zae-limiter serve exports, as Prometheus
// scrapes it. The one that it printed last is in this folder, to import:
//
//	go -C examples run ./grafana > examples/grafana/dashboard.json
package main

//lint:file-ignore SA1019 every Grafana imports this form of a dashboard, and only new ones that of dashboardv2

import (
	"encoding/json"
	"log"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	d, err := build()
	if err != nil {
		log.Fatal(err)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(d); err != nil {
		log.Fatal(err)
	}
}

// panel is a chart: what each line shows, by its legend.
type panel struct {
	title, text, unit string
	lines             [][2]string // legend, expression
}

// perSecond is a chart of how often something is counted, a line for each value of a label.
func perSecond(title, text, metric, label string) panel {
	return panel{title, text, "cps", [][2]string{
		{"{{" + label + "}}", "sum by (" + label + ") (rate(" + metric + "{" + label + `!=""}[$__rate_interval]))`}}}
}

// durations is a chart of a histogram: the half and the hundredth that take longest.
func durations(title, text, metric string) panel {
	quantile := func(q string) string {
		return "histogram_quantile(" + q + ", sum by (le) (rate(" + metric + "_bucket[$__rate_interval])))"
	}
	return panel{title, text, "s", [][2]string{{"p50", quantile("0.5")}, {"p99", quantile("0.99")}}}
}

var writes = panel{"Writes to the table", "They are most of the bill.", "cps",
	[][2]string{{"{{job}}", "sum by (job) (rate(zae_limiter_writes_total[$__rate_interval]))"}}}

// rows are the charts of programs with otellimit, and of zae-limiter serve.
var rows = []struct {
	title  string
	panels []panel
}{
	{"Programs with otellimit", []panel{
		perSecond("Acquires", "By outcome. Unavailable and unknown ones had no decision.",
			"zae_limiter_acquire_duration_seconds_count", "zae_limiter_outcome"),
		perSecond("Decided by policy", "Requests without a decision, by the failure policy that answered.",
			"zae_limiter_acquire_duration_seconds_count", "zae_limiter_policy"),
		durations("Time to decide", "", "zae_limiter_acquire_duration_seconds"),
		perSecond("Denials", "By limit. One that is often short may be too low.",
			"zae_limiter_denials_total", "zae_limiter_limit"),
		perSecond("Overdrawn", "What soft limits let pass in debt.", "zae_limiter_overdrawn_total", "zae_limiter_limit"),
		{"Tokens taken", "By limit, less those given back.", "cps", [][2]string{{"{{zae_limiter_limit}}",
			"sum by (zae_limiter_limit) (deriv(zae_limiter_tokens[$__rate_interval]))"}}},
		perSecond("Settlements", "By outcome. What fails leaves tokens taken.",
			"zae_limiter_settle_duration_seconds_count", "zae_limiter_outcome"),
		durations("Time to settle", "", "zae_limiter_settle_duration_seconds"),
		perSecond("Events", "Splits, merges, refused writes and the like.", "zae_limiter_events_total", "zae_limiter_event"),
		writes,
		{"Open breakers", "Processes that send no calls, because several in a row had no answer.", "short",
			[][2]string{{"open", "sum(zae_limiter_breaker_open_ratio)"}}},
		{"Clock correction", "What is added to the clocks of machines.", "s", [][2]string{
			{"most", "max(zae_limiter_clock_correction_seconds)"}, {"least", "min(zae_limiter_clock_correction_seconds)"}}},
	}},
	{"zae-limiter serve", []panel{
		perSecond("Hits of Envoy", "By outcome.", "zae_limiter_hits_total", "outcome"),
		perSecond("Hits of Envoy by rule", "", "zae_limiter_hits_total", "rule"),
		perSecond("Events of serve", "By kind.", "zae_limiter_events_total", "kind"),
		durations("Time to decide in serve", "", "zae_limiter_acquire_seconds"),
		{"Leases", "What clients of the API hold.", "short", [][2]string{{"{{instance}}", "zae_limiter_leases"}}},
		perSecond("Changed rules", "In force, or refused.", "zae_limiter_rules_read_total", "result"),
	}},
}

func build() (dashboard.Dashboard, error) {
	source := common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${source}")}
	d := dashboard.NewDashboardBuilder("zae-limiter").Uid("zae-limiter").Time("now-3h", "now").Refresh("30s").
		WithVariable(dashboard.NewDatasourceVariableBuilder("source").Label("Prometheus").Type("prometheus"))
	for _, row := range rows {
		d.WithRow(dashboard.NewRowBuilder(row.title))
		for _, p := range row.panels {
			chart := timeseries.NewPanelBuilder().Title(p.title).Description(p.text).Unit(p.unit).Datasource(source).
				Span(8).Height(8).Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti))
			for i, line := range p.lines {
				chart.WithTarget(prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Datasource(source).
					Expr(line[1]).LegendFormat(line[0]).Range())
			}
			d.WithPanel(chart)
		}
	}
	return d.Build()
}
