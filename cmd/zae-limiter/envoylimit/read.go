package envoylimit

import (
	"errors"
	"fmt"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// file is a file of the configuration.
type file struct {
	name string // for messages
	text []byte
}

// parse reads a configuration: each file is the rules of one domain.
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

func (p *parser) read(c *Config, text []byte) {
	root, err := document(text)
	switch {
	case err != nil:
		p.wrong = append(p.wrong, p.worded(err))
		return
	case root == nil:
		p.wrong = append(p.wrong, fmt.Errorf("%s:1: empty, want domain and descriptors", p.file))
		return
	}
	fields := p.fields(root, "domain", "descriptors")
	if fields == nil {
		return
	}
	domain := p.text(fields["domain"])
	if domain == "" {
		p.refuse(root, "domain is empty, want the name of a domain")
		return
	}
	if other := c.domains[domain]; other != nil {
		p.refuse(fields["domain"], "domain %q is in %s:%d already", domain, other.file, other.line)
		return
	}
	top := &node{file: p.file, line: fields["domain"].Line}
	p.descriptors(top, domain, fields["descriptors"])
	c.domains[domain] = top
}

func (p *parser) descriptors(above *node, path string, list *yaml.Node) {
	for _, item := range p.list(list, "descriptors") {
		p.descriptor(above, path, item)
	}
}

// descriptor reads a descriptor, with its nested ones, into the node above.
func (p *parser) descriptor(above *node, path string, item *yaml.Node) {
	fields := p.fields(item, "key", "value", "rate_limit", "shadow_mode", "detailed_metric", "descriptors",
		"share_threshold", "value_to_metric", "class")
	if fields == nil {
		return
	}
	key, value := p.text(fields["key"]), p.text(fields["value"])
	prefix, wild := strings.CutSuffix(value, "*")
	n := &node{file: p.file, line: item.Line}
	switch {
	case key == "":
		p.refuse(item, "key is empty, want the key of a descriptor")
		return
	case strings.Contains(key, "*"):
		p.refuse(fields["key"], "key is %q: a * is accepted at the end of values", key)
	case strings.Contains(prefix, "*"):
		p.refuse(fields["value"], "value is %q: a * is accepted at the end", value)
	}
	shares := p.flag(fields["share_threshold"])
	if shares {
		n.shares = value
	}
	if shares && !wild {
		p.refuse(fields["share_threshold"], "share_threshold is true, want a value that ends in *")
	}
	for _, metric := range []string{"detailed_metric", "value_to_metric"} {
		p.flag(fields[metric])
	}
	path += "|" + key
	if value != "" {
		path += "=" + value
	}
	if other := above.add(key, value, n); other != nil {
		p.refuse(item, "%s is in line %d already", path, other.line)
		return
	}
	n.rule = p.rule(fields["rate_limit"], path)
	class := p.text(fields["class"])
	if class != "" && limiter.PerSecond(LimitName, 1).WithFloor(class, 0).Validate() != nil {
		p.refuse(fields["class"], "class is %q, want 1 to 32 letters, digits, '_', '.' or '-'", class)
	}
	if shadow := p.flag(fields["shadow_mode"]); n.rule != nil {
		n.rule.shadow, n.rule.class = shadow, class
	}
	p.descriptors(n, path, fields["descriptors"])
}

// add puts a node below another. It returns the one that is there already.
func (n *node) add(key, value string, below *node) *node {
	if n.values == nil {
		n.values, n.keys = map[entry]*node{}, map[string]*node{}
	}
	prefix, wild := strings.CutSuffix(value, "*")
	switch {
	case value == "":
		if other := n.keys[key]; other != nil {
			return other
		}
		n.keys[key] = below
	case wild:
		w := wildcard{key, prefix, below}
		for _, other := range n.wildcards {
			if other.key == key && other.prefix == prefix {
				return other.node
			}
		}
		n.wildcards = append(n.wildcards, w)
	default:
		if other := n.values[entry{key, value}]; other != nil {
			return other
		}
		n.values[entry{key, value}] = below
	}
	return nil
}

// units are the words for a unit.
var units = map[string]ratelimit.RateLimitResponse_RateLimit_Unit{
	"second": ratelimit.RateLimitResponse_RateLimit_SECOND,
	"minute": ratelimit.RateLimitResponse_RateLimit_MINUTE,
	"hour":   ratelimit.RateLimitResponse_RateLimit_HOUR,
	"day":    ratelimit.RateLimitResponse_RateLimit_DAY,
	"week":   ratelimit.RateLimitResponse_RateLimit_WEEK,
	"month":  ratelimit.RateLimitResponse_RateLimit_MONTH,
	"year":   ratelimit.RateLimitResponse_RateLimit_YEAR,
}

// longest is the longest period of a limit.
const longest = 10 * 365 * 24 * time.Hour

// rule reads a rate limit; nil is none.
func (p *parser) rule(n *yaml.Node, path string) *rule {
	fields := p.fields(n, "unit", "unit_multiplier", "requests_per_unit", "unlimited", "name", "replaces")
	if fields == nil {
		return nil
	}
	r := &rule{path: path, name: p.text(fields["name"]), unlimited: p.flag(fields["unlimited"])}
	for _, item := range p.list(fields["replaces"], "replaces") {
		switch name := p.text(p.fields(item, "name")["name"]); name {
		case "":
			p.refuse(item, "name is empty, want the name of a rate limit that is replaced")
		case r.name:
			p.refuse(item, "name is %q: a rate limit cannot replace itself", name)
		default:
			r.replaces = append(r.replaces, name)
		}
	}
	if r.unlimited {
		if unit := fields["unit"]; unit != nil {
			p.refuse(unit, "unit is %s and unlimited is true, want one of them", shown(unit))
		}
		return r
	}
	requests := p.number(n, fields, "requests_per_unit", 0, 1<<32-1)
	unit, ok := units[strings.ToLower(p.text(fields["unit"]))]
	if !ok {
		at := n
		if fields["unit"] != nil {
			at = fields["unit"]
		}
		p.refuse(at, "unit is %q, want second, minute, hour, day, week, month or year", p.text(fields["unit"]))
		return r
	}
	multiplier := uint64(1)
	if fields["unit_multiplier"] != nil {
		multiplier = p.number(n, fields, "unit_multiplier", 1, uint64(longest/periods[unit]))
	}
	r.set(uint32(requests), unit, uint32(multiplier))
	return r
}
