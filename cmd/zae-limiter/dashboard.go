package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"iter"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/limiter"
)

//go:embed dashboard.html
var dashboardPage string

var dashboardTemplate = template.Must(template.New("dashboard").Parse(dashboardPage))

func dashboardCommand(a *app) *cobra.Command {
	address, most := "localhost:8082", 100
	cmd := a.inNamespace(&cobra.Command{
		Use: "dashboard", Short: "a page of budgets, limits, denials and usage, until Ctrl-C",
		Long: `Serve a web page with the output of peek, usage and limits list: budgets and limits, what
is left of them, denied requests, stored limits, and for a tenant or a resource the usage
of this month and the last. It changes nothing.

Each view reads the table: 5 read units for a bucket with its limits, of which it shows
at most 100 (--most), and one for each scope of stored limits. The usage of a tenant is
at most 120 read units for each resource.

It has neither TLS nor authentication, and listens on this machine only, unless --http
says otherwise.`,
		Example: "  zae-limiter dashboard\n  zae-limiter dashboard --http localhost:9000 -n prod",
		PreRunE: func(c *cobra.Command, _ []string) error {
			switch host, _, err := net.SplitHostPort(address); {
			case err != nil:
				return usage(c, "--http %q: want an address like localhost:8082", address)
			case host == "":
				return usage(c, "--http %q: name the host too, as in localhost%s", address, address)
			case most < 1:
				return usage(c, "--most %d: want 1 or more", most)
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		now := time.Now
		if a.memory != nil {
			now = a.memory.Now
		}
		return answer{}, a.dashboard(c.ctx, address, dashboard{c.ns, most, now})
	})
	cmd.Flags().StringVar(&address, "http", address, "address of the page")
	cmd.Flags().IntVar(&most, "most", most, "how many buckets, months and stored scopes to show")
	return cmd
}

// dashboard serves the page until ctx ends.
func (a *app) dashboard(ctx context.Context, address string, d dashboard) error {
	host, _, _ := net.SplitHostPort(address)
	return a.runServers(ctx, serverOf("http://%s", address, bounded(d.handler(host), 2*time.Minute)))
}

// dashboard is the page of a namespace.
type dashboard struct {
	ns   *admin.Namespace
	most int // rows of a list
	now  func() time.Time
}

// handler answers with the page. It refuses requests with another host name: a site whose name
// points here could otherwise read the page.
func (d dashboard) handler(host string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		var out bytes.Buffer
		if err := dashboardTemplate.Execute(&out, d.look(r.Context(), admin.Scope{
			Entity: q.Get("entity"), Resource: q.Get("resource")})); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for name, value := range map[string]string{
			"Content-Type":  "text/html; charset=utf-8",
			"Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; " +
				"base-uri 'none'; frame-ancestors 'none'",
			"Referrer-Policy":        "no-referrer",
			"X-Content-Type-Options": "nosniff",
		} {
			w.Header().Set(name, value)
		}
		_, _ = w.Write(out.Bytes())
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.Host
		if name, _, err := net.SplitHostPort(asked); err == nil {
			asked = name
		}
		if asked != host && asked != "localhost" && net.ParseIP(strings.Trim(asked, "[]")) == nil {
			http.Error(w, fmt.Sprintf("host %q: want localhost, the host of --http, or an IP address", asked),
				http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

type shownPage struct {
	Namespace, At string
	Of            admin.Scope
	Most          int
	Problems      []string
	Sections      []section
}

// section is a table with its title, and a sentence about it.
type section struct {
	Title, Note string
	Head        []string
	Body        [][]cell
	More        bool // some rows are not shown
}

// cell is a cell of a table. If Of is set, the cell links to the page of ID, which Of describes.
type cell struct {
	Text, Of, ID string
	Number       bool
}

// look reads the table. Parts that cannot be read become problems of the page.
func (d dashboard) look(ctx context.Context, of admin.Scope) shownPage {
	now := d.now().UTC()
	p := shownPage{Namespace: harmless(d.ns.Name()), At: now.Format("2006-01-02 15:04:05 MST"), Of: of, Most: d.most}
	buckets, more := listed(&p, d.most, d.ns.Buckets(ctx, of))
	p.add("Budgets and limits", "Money first, and then what is used most.", levelRows(buckets, now), more)
	p.add("Denied requests", "Of each bucket since it began. A process adds its own with its next write.",
		deniedRows(buckets), more)
	if of != (admin.Scope{}) {
		last := time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC)
		all, more := listed(&p, d.most, d.ns.Usage(ctx, admin.UsageQuery{
			Entity: of.Entity, Resource: of.Resource, Window: admin.Monthly, From: last}))
		p.add("Usage by month", "This month and the last, UTC. It lags behind by up to an hour.",
			monthRows(all), more)
	}
	configs, more := listed(&p, d.most, d.ns.Configs(ctx, of))
	p.add("Stored limits", "A star stands for all that have none of their own.", configsAnswer(configs...).rows, more)
	return p
}

// listed returns at most n elements, and whether there are more. Errors become problems of the
// page.
func listed[T any](p *shownPage, n int, seq iter.Seq2[T, error]) (out []T, more bool) {
	seen := 0
	for v, err := range seq {
		if seen++; seen > n {
			return out, true
		}
		if err != nil {
			// Each list reports a wrong name.
			if problem := harmless(plain(err.Error())); !slices.Contains(p.Problems, problem) {
				p.Problems = append(p.Problems, problem)
			}
			continue
		}
		out = append(out, v)
	}
	return out, false
}

// add adds rows as a table. Cells of the first two columns link to their entity or resource.
func (p *shownPage) add(title, note string, r rows, more bool) {
	s := section{Title: title, Note: note, Head: r.head, More: more}
	for _, row := range r.body {
		var cells []cell
		for i, value := range row {
			c := cell{Text: harmless(text(value)), Number: isNumber(value)}
			if name, ok := value.(string); ok && i < 2 && name != anyone("") {
				c.Of, c.ID = r.head[i], name
			}
			cells = append(cells, c)
		}
		s.Body = append(s.Body, cells)
	}
	p.Sections = append(p.Sections, s)
}

// percent is a share, rounded down, so that only all of it is 100 %.
type percent float64

func (p percent) String() string { return fmt.Sprintf("%.0f%%", math.Floor(float64(p))) }

// used returns how much of a level is used, in percent. In debt it is more than 100.
func used(l admin.Level) float64 {
	return max(0, 100*(float64(l.Capacity)-float64(l.Remaining))/max(1, float64(l.Capacity)))
}

// levelRows has one row for each limit of a bucket: money first, then the most used first.
func levelRows(all []admin.Bucket, now time.Time) rows {
	type level struct {
		admin.Level
		of admin.Bucket
	}
	var levels []level
	for _, b := range all {
		for _, l := range b.Levels {
			levels = append(levels, level{l, b})
		}
	}
	order := func(l level) float64 {
		if amountOf(l.Limit, 0).dollars {
			return math.Inf(1)
		}
		return used(l.Level)
	}
	slices.SortStableFunc(levels, func(a, b level) int {
		return cmp.Or(cmp.Compare(order(b), order(a)), cmp.Compare(used(b.Level), used(a.Level)))
	})
	r := rows{head: []string{"entity", "resource", "limit", "used", "left", "of", "terms", "whole again"}}
	for _, l := range levels {
		left, capacity := leftOf(l.Level)
		share := any("")
		if capacity != "" {
			share = percent(used(l.Level))
		}
		r.add(l.of.Entity, l.of.Resource, l.Name, share, left, capacity, terms(l.Limit), wholeAgain(l.FullIn, now))
	}
	return r
}

// terms describes how a limit refills.
func terms(l limiter.Limit) string {
	if l.Refill == 0 || l.IsUnlimited() || l.IsBlocked() {
		return manifest.Note(l)
	}
	return fmt.Sprintf("%v in %v", amountOf(l, l.Refill), l.Period)
}

// wholeAgain returns when a limit is full again: as a duration if that is within a day.
func wholeAgain(in time.Duration, now time.Time) string {
	switch {
	case in < 0:
		return "never"
	case in == 0:
		return ""
	case in < 24*time.Hour:
		return "in " + in.Round(time.Second).String()
	}
	return now.Add(in).Format("2006-01-02 15:04 MST")
}

func deniedRows(all []admin.Bucket) rows {
	all = slices.DeleteFunc(slices.Clone(all), func(b admin.Bucket) bool { return b.Denied == 0 })
	slices.SortStableFunc(all, func(a, b admin.Bucket) int { return cmp.Compare(b.Denied, a.Denied) })
	r := rows{head: []string{"entity", "resource", "denied"}}
	for _, b := range all {
		r.add(b.Entity, b.Resource, b.Denied)
	}
	return r
}

func monthRows(all []admin.Usage) rows {
	r := rows{head: []string{"entity", "resource", "month", "limit", "tokens", "denied"}}
	for _, u := range all {
		for _, name := range limitsIn(u.Tokens, u.Denied) {
			r.add(u.Entity, u.Resource, u.Start.Format("2006-01"), name, amountIn(name, u.Tokens[name]), u.Denied)
		}
	}
	return r
}
