package envoylimit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/internal/yamldoc"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// file is a file of the configuration.
type file struct {
	name string
	text []byte
}

// rules is the content of a file: the rules of one domain.
type rules struct {
	Domain      string       `yaml:"domain"`
	Descriptors []descriptor `yaml:"descriptors"`
	Lines       yamldoc.Lines
}

type descriptor struct {
	Key         string       `yaml:"key"`
	Value       string       `yaml:"value"`
	Limit       *rateLimit   `yaml:"rate_limit"`
	Shadow      flag         `yaml:"shadow_mode"`
	Metric      flag         `yaml:"detailed_metric"` // accepted and ignored
	Descriptors []descriptor `yaml:"descriptors"`
	Shares      flag         `yaml:"share_threshold"`
	ValueMetric flag         `yaml:"value_to_metric"` // accepted and ignored
	Class       string       `yaml:"class"`
	Lines       yamldoc.Lines
}

type rateLimit struct {
	Unit       unit       `yaml:"unit"`
	Multiplier string     `yaml:"unit_multiplier"` // a number; the unit determines the largest
	Requests   uint32     `yaml:"requests_per_unit"`
	Unlimited  flag       `yaml:"unlimited"`
	Name       string     `yaml:"name"`
	Replaces   []replaced `yaml:"replaces"`
	Lines      yamldoc.Lines
}

type replaced struct {
	Name  string `yaml:"name"`
	Lines yamldoc.Lines
}

// parse reads a configuration. Each file has the rules of one domain.
func parse(files ...file) (*Config, error) {
	c := &Config{domains: map[string]*node{}, files: files}
	var wrong []error
	for _, f := range files {
		p := parser{file: f.name}
		p.read(c, f.text)
		wrong = append(wrong, p.wrong...)
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	return c, nil
}

// parser reads one file. It reports errors of form before errors of meaning.
type parser struct {
	file  string
	wrong []error
}

func (p *parser) refuse(line int, format string, args ...any) {
	at := p.file
	if line > 0 {
		at = fmt.Sprintf("%s:%d", p.file, line)
	}
	p.wrong = append(p.wrong, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
}

func (p *parser) read(c *Config, text []byte) {
	var r rules
	for _, mistake := range yamldoc.Read(text, &r, yamldoc.Options{}) {
		p.refuse(mistake.Line, "%s", mistake.Text)
	}
	line := max(1, r.Lines[""], r.Lines["domain"])
	switch other := c.domains[r.Domain]; {
	case p.wrong != nil:
	case r.Domain == "":
		p.refuse(line, "domain is empty, want the name of a domain")
	case other != nil:
		p.refuse(line, "domain %q is in %s:%d already", r.Domain, other.file, other.line)
	default:
		top := &node{file: p.file, line: line}
		p.descriptors(top, r.Domain, r.Descriptors)
		c.domains[r.Domain] = top
	}
}

func (p *parser) descriptors(above *node, path string, list []descriptor) {
	for _, d := range list {
		p.descriptor(above, path, d)
	}
}

// descriptor adds a descriptor and its nested descriptors to a node.
func (p *parser) descriptor(above *node, path string, d descriptor) {
	prefix, wild := strings.CutSuffix(d.Value, "*")
	n := &node{file: p.file, line: d.Lines[""]}
	switch {
	case d.Key == "":
		p.refuse(n.line, "key is empty, want the key of a descriptor")
		return
	case strings.Contains(d.Key, "*"):
		p.refuse(d.Lines["key"], "key is %q: a * is accepted at the end of values", d.Key)
	case strings.Contains(prefix, "*"):
		p.refuse(d.Lines["value"], "value is %q: a * is accepted at the end", d.Value)
	}
	if d.Shares {
		n.shares = d.Value
	}
	if bool(d.Shares) && !wild {
		p.refuse(d.Lines["share_threshold"], "share_threshold is true, want a value that ends in *")
	}
	path += "|" + d.Key
	if d.Value != "" {
		path += "=" + d.Value
	}
	if other := above.add(d.Key, d.Value, n); other != nil {
		p.refuse(n.line, "%s is in line %d already", path, other.line)
		return
	}
	if d.Class != "" && limiter.PerSecond(LimitName, 1).WithFloor(d.Class, 0).Validate() != nil {
		p.refuse(d.Lines["class"], "class is %q, want 1 to 32 letters, digits, '_', '.' or '-'", d.Class)
	}
	if n.rule = p.rule(d.Limit, path); n.rule != nil {
		n.rule.shadow, n.rule.class = bool(d.Shadow), d.Class
	}
	p.descriptors(n, path, d.Descriptors)
}

// add puts a node below another. If the place is taken, it returns the node there.
func (n *node) add(key, value string, below *node) *node {
	if prefix, wild := strings.CutSuffix(value, "*"); wild {
		for _, other := range n.wildcards {
			if other.key == key && other.prefix == prefix {
				return other.node
			}
		}
		n.wildcards = append(n.wildcards, wildcard{key, prefix, below})
		return nil
	}
	if n.values == nil {
		n.values = map[entry]*node{}
	}
	at := entry{key, value}
	if other := n.values[at]; other != nil {
		return other
	}
	n.values[at] = below
	return nil
}

const longest = 10 * 365 * 24 * time.Hour

type unit ratelimit.RateLimitResponse_RateLimit_Unit

const wantUnit = "want second, minute, hour, day, week, month or year"

// UnmarshalYAML reads the word for a unit.
func (u *unit) UnmarshalYAML(n *yaml.Node) error {
	*u = unit(ratelimit.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(n.Value)])
	if periods[ratelimit.RateLimitResponse_RateLimit_Unit(*u)] == 0 {
		return fmt.Errorf("found %s, %s", yamldoc.Found(n), wantUnit)
	}
	return nil
}

// flag is a boolean as envoyproxy/ratelimit reads it: y and n are accepted too.
type flag bool

// UnmarshalYAML reads a flag.
func (f *flag) UnmarshalYAML(n *yaml.Node) error {
	if n.Decode((*bool)(f)) != nil {
		return fmt.Errorf("found %s, want true or false", yamldoc.Found(n))
	}
	return nil
}

// rule reads a rate limit. It returns nil for nil.
func (p *parser) rule(l *rateLimit, path string) *rule {
	if l == nil {
		return nil
	}
	r := &rule{path: path, name: l.Name, unlimited: bool(l.Unlimited)}
	for _, other := range l.Replaces {
		switch line := other.Lines[""]; other.Name {
		case "":
			p.refuse(line, "name is empty, want the name of a rate limit that is replaced")
		case r.name:
			p.refuse(line, "name is %q: a rate limit cannot replace itself", r.name)
		default:
			r.replaces = append(r.replaces, other.Name)
		}
	}
	line, hasUnit := l.Lines[""], l.Lines["unit"] != 0
	if r.unlimited {
		if hasUnit {
			p.refuse(l.Lines["unit"], "unlimited is true and unit is %s, want one of them",
				strings.ToLower(ratelimit.RateLimitResponse_RateLimit_Unit(l.Unit).String()))
		}
		return r
	}
	if l.Lines["requests_per_unit"] == 0 {
		p.refuse(line, "requests_per_unit is missing, want 0 to %d", uint32(math.MaxUint32))
	}
	if !hasUnit {
		p.refuse(line, "unit is missing, %s", wantUnit)
		return r
	}
	u, multiplier := ratelimit.RateLimitResponse_RateLimit_Unit(l.Unit), uint32(1)
	if line := l.Lines["unit_multiplier"]; line != 0 {
		most := uint64(longest / periods[u])
		n, err := strconv.ParseUint(l.Multiplier, 10, 32)
		if err != nil || n < 1 || n > most || l.Multiplier != strconv.FormatUint(n, 10) {
			p.refuse(line, "unit_multiplier is %q, want 1 to %d", l.Multiplier, most)
		}
		multiplier = uint32(n)
	}
	r.set(l.Requests, u, multiplier)
	return r
}
