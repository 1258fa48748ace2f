package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// naiveDecode is the second decoder. It is slow, uses encoding/json and maps, and was written from
// the description of the payload, not from the first decoder.
func naiveDecode(payload []byte) (Batch, error) {
	if !json.Valid(payload) {
		return Batch{}, errors.New("not JSON")
	}
	top, ok := members(payload)
	records, found := top.once("Records")
	if !ok || !found || top.twice("Records") {
		return Batch{}, errNoRecords
	}
	list, ok := elements(records)
	if !ok {
		return Batch{}, errNoRecords
	}
	out := Batch{Tumbling: naiveTumbling(top)}
	for _, raw := range list {
		out.Records++
		c, seq, ignored, err := naiveRecord(raw)
		switch {
		case err != nil:
			out.Malformed = append(out.Malformed, Malformed{Sequence: seq, Reason: err.Error(), Raw: raw})
		case ignored:
			out.Ignored++
		default:
			out.Changes = append(out.Changes, c)
			if out.Oldest == 0 || c.Created < out.Oldest {
				out.Oldest = c.Created
			}
		}
	}
	return out, nil
}

// object is a JSON object that keeps the order and repetition of its members.
type object []struct {
	name  string
	value json.RawMessage
}

func (o object) once(name string) (json.RawMessage, bool) {
	for _, m := range o {
		if m.name == name {
			return m.value, true
		}
	}
	return nil, false
}

func (o object) twice(name string) bool {
	n := 0
	for _, m := range o {
		if m.name == name {
			n++
		}
	}
	return n > 1
}

func members(raw json.RawMessage) (object, bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	o := object{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			panic(err)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			panic(err)
		}
		o = append(o, struct {
			name  string
			value json.RawMessage
		}{t.(string), v})
	}
	return o, true
}

func elements(raw json.RawMessage) (list []json.RawMessage, ok bool) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, false
	}
	return list, json.Unmarshal(raw, &list) == nil
}

func isString(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// attribute returns the string inside {"want":"…"}.
func attribute(raw json.RawMessage, want string) (string, bool) {
	o, ok := members(raw)
	if !ok || len(o) != 1 || o[0].name != want {
		return "", false
	}
	return isString(o[0].value)
}

var wholeNumber = regexp.MustCompile(`^-?[0-9]+$`)

func number(raw json.RawMessage) (int64, bool) {
	s, ok := attribute(raw, "N")
	if !ok || !wholeNumber.MatchString(s) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, false
	}
	return n, true
}

func naiveRecord(raw json.RawMessage) (c Change, seq string, ignored bool, err error) {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	get := func(o object, name string) json.RawMessage {
		v, ok := o.once(name)
		if !ok || o.twice(name) {
			bad("%s missing or twice", name)
		}
		return v
	}
	rec, ok := members(raw)
	if !ok {
		return c, "", false, errors.New("no object")
	}
	event, ok := isString(get(rec, "eventName"))
	if !ok || !slices.Contains([]string{"INSERT", "MODIFY", "REMOVE"}, event) {
		bad("event %q", event)
	}
	enabledAt := int64(0)
	if raw, ok := rec.once("eventSourceARN"); ok {
		arn, isText := isString(raw)
		if !isText || rec.twice("eventSourceARN") {
			bad("source %s", raw)
		}
		enabledAt = naiveEnabled(arn)
	}
	body, ok := members(get(rec, "dynamodb"))
	if !ok {
		bad("dynamodb")
	}
	if s, ok := isString(get(body, "SequenceNumber")); ok && regexp.MustCompile(`^[0-9]{1,40}$`).MatchString(s) {
		seq = s
	} else {
		bad("sequence %q", s)
	}
	keys, ok := members(get(body, "Keys"))
	if !ok {
		bad("keys")
	}
	pk, ok := attribute(get(keys, "PK"), "S")
	if !ok {
		bad("PK")
	}
	sk, ok := attribute(get(keys, "SK"), "S")
	if !ok {
		bad("SK")
	}
	created, ok := body.once("ApproximateCreationDateTime")
	ms, valid := millis(created)
	if ok && !valid || body.twice("ApproximateCreationDateTime") {
		bad("created %s", created)
	}
	if body.twice("NewImage") || body.twice("OldImage") {
		bad("image twice")
	}
	if len(problems) > 0 {
		return c, seq, false, errors.Join(problems...)
	}
	if sk != "#STATE" {
		return c, seq, true, nil
	}
	if !ok {
		return c, seq, false, errors.New("no instant")
	}
	c, err = naiveChange(event, pk, body)
	c.Stream, c.Sequence, c.Created = enabledAt, seq, ms
	return c, seq, false, err
}

var streamARN = regexp.MustCompile(`(?s)^.*/stream/([^/]*)$`)

func naiveEnabled(arn string) int64 {
	m := streamARN.FindStringSubmatch(arn)
	if m == nil {
		return 0
	}
	t, err := time.ParseInLocation(time.RFC3339, m[1]+"Z", time.UTC)
	if err != nil || t.Unix() < 0 || len(strconv.FormatInt(t.Unix(), 10)) > 10 {
		return 0
	}
	return t.Unix()
}

func naiveChange(event, pk string, body object) (Change, error) {
	c := Change{Operation: Insert}
	ns, entity, resource, shard, ok := layout.ParseBucketPK(pk)
	if !ok || shard >= 1<<31-1 || len(entity) > layout.MaxName || len(resource) > layout.MaxName {
		return c, fmt.Errorf("PK %q", pk)
	}
	old := &naiveItem{}
	oldRaw, hasOld := body.once("OldImage")
	if event == "REMOVE" {
		return naiveRemoval(c, table.Shard{Namespace: ns, Entity: entity, Resource: resource,
			State: bucket.State{Shard: shard}}, oldRaw)
	}
	newRaw, _ := body.once("NewImage")
	im, err := naiveImage(newRaw, true)
	if err != nil {
		return c, err
	}
	if hasOld != (event == "MODIFY") {
		return c, errors.New("old image")
	}
	if hasOld {
		if old, err = naiveImage(oldRaw, false); err != nil {
			return c, err
		}
		c.Operation = Modify
		c.OldShards, c.OldGeneration, c.OldRF = old.shards(), old.generation, old.instant()
		c.OldBorn = old.born
	}
	c.New = table.Shard{Namespace: ns, Entity: entity, Resource: resource,
		Cascade: im.cascade, Parent: im.parent, NoShardCount: im.count == nil, Generation: im.generation,
		Born: im.born}
	if im.ttl != nil {
		c.New.TTL = *im.ttl
	}
	c.New.State = bucket.State{Shard: shard, Shards: im.shards(), NoClock: im.rf == nil, HeldUntil: im.until,
		Undivided: im.undivided}
	if im.rf != nil {
		c.New.State.RF = *im.rf
	}
	c.naiveUsed(old, im)
	for _, name := range im.names() {
		im.slot(name, &c)
	}
	return c, nil
}

func naiveRemoval(c Change, b table.Shard, raw json.RawMessage) (Change, error) {
	old, err := naiveImage(raw, false)
	if err != nil {
		return c, err
	}
	c.Operation, c.New = Remove, b
	c.OldShards, c.OldGeneration, c.OldRF = old.shards(), old.generation, old.instant()
	c.OldBorn = old.born
	c.naiveUsed(old, &naiveItem{})
	return c, nil
}

func (c *Change) naiveUsed(old, im *naiveItem) {
	names := slices.Compact(slices.Sorted(slices.Values(append(old.names(), im.names()...))))
	for _, n := range names {
		_, was := old.limits[n]["tc"]
		_, is := im.limits[n]["tc"]
		before, after, grown := old.spent(n), im.spent(n), int64(0)
		if is {
			grown = nearest(new(big.Int).Sub(after, before))
		}
		if n == "wcu" {
			c.Metered = grown
		} else if was || is {
			c.Used = append(c.Used, Used{n, floored(before), floored(after), was, is, grown})
		}
	}
}

func naiveTumbling(top object) (w Tumbling) {
	for _, m := range top {
		first := string(m.value[:1])
		switch m.name {
		case "window":
			if first == "{" {
				w.On, w.Length = true, naiveLength(m.value)
			}
		case "state":
			if first == "{" {
				w.State = m.value
			}
		case "isFinalInvokeForWindow", "isWindowTerminatedEarly":
			w.Final = w.Final || string(m.value) == "true"
		}
	}
	return w
}

func naiveLength(window []byte) int64 {
	var bounds map[string]time.Time
	if json.Unmarshal(window, &bounds) != nil || bounds["end"].Before(bounds["start"]) {
		return 0
	}
	return int64(bounds["end"].Sub(bounds["start"]) / time.Millisecond)
}

// floored returns whole tokens, of which there may be more than fit into 64 bits.
func floored(milli *big.Int) int64 {
	return low(new(big.Int).Div(milli, big.NewInt(1000))) // Euclidean is floor for a positive divisor
}

// low returns a number modulo 2^64.
func low(n *big.Int) int64 {
	size := new(big.Int).Lsh(big.NewInt(1), 64)
	n = new(big.Int).Mod(n, size)
	if n.Bit(63) == 1 {
		n.Sub(n, size)
	}
	return n.Int64()
}

func nearest(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() > 0:
		return 1<<63 - 1
	}
	return -1 << 63
}

type naiveItem struct {
	rf, count, ttl *int64
	cascade        bool
	parent         string
	limits         map[string]map[string]int64
	rests          map[string]int64
	generation     int64
	born           int64
	held           map[string]int64
	used, ended    map[string]*big.Int
	until          int64
	undivided      bool
}

func (im *naiveItem) spent(name string) *big.Int {
	n := new(big.Int)
	if im.used[name] == nil {
		return n
	}
	if n.Set(im.used[name]); im.ended[name] != nil {
		n.Sub(n, im.ended[name])
	}
	return n
}

func (im *naiveItem) instant() int64 {
	if im.rf == nil {
		return 0
	}
	return *im.rf
}

func (im *naiveItem) shards() int {
	if im.count == nil {
		return 1
	}
	return int(*im.count)
}

func (im *naiveItem) names() []string {
	var names []string
	for n := range im.limits {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func (im *naiveItem) slot(name string, c *Change) {
	l := im.limits[name]
	for attr, n := range map[string]*big.Int{"b_" + name + "_tc": im.used[name], "x_" + name: im.ended[name]} {
		if n != nil && !n.IsInt64() {
			if c.New.Outgrown == nil {
				c.New.Outgrown = map[string]item.Value{}
			}
			c.New.Outgrown[attr] = &types.AttributeValueMemberN{Value: n.String()}
		}
	}
	ended := int64(0)
	if im.ended[name] != nil {
		ended = low(im.ended[name])
	}
	if len(l) == 5 && l["cp"] > 0 && l["ra"] > 0 && l["rp"] > 0 {
		sl := bucket.Slot{Limit: bucket.Limit{Name: name, Capacity: l["cp"], Amount: l["ra"], Period: l["rp"]},
			Tokens: l["tk"], Used: l["tc"], Held: min(im.held[name], l["cp"]), Ended: ended}
		if r := im.rests[name]; r >= 0 && r < sl.Period {
			sl.Rest = r
		}
		c.New.State.Slots = append(c.New.State.Slots, sl)
	} else if _, ok := l["tk"]; ok {
		c.New.Partial = append(c.New.Partial, table.PartialLimit{Name: name, Tokens: l["tk"], Used: l["tc"]})
	}
}

var limitAttr = regexp.MustCompile(`(?s)^b_(.+)_(tk|cp|ra|rp|tc)$`)

func naiveImage(raw json.RawMessage, full bool) (*naiveItem, error) {
	o, ok := members(raw)
	if !ok {
		return nil, errors.New("image is no object")
	}
	im := &naiveItem{limits: map[string]map[string]int64{}, held: map[string]int64{}, used: map[string]*big.Int{},
		ended: map[string]*big.Int{}}
	for _, m := range o {
		n, whole := naiveWhole(m.value)
		if name, ok := strings.CutPrefix(m.name, "o_"); ok && name != "" && name != "wcu" {
			im.held[name] = 0
			if whole {
				im.held[name] = max(0, nearest(new(big.Int).Neg(n)))
			}
		}
		if name, ok := strings.CutPrefix(m.name, "x_"); ok && name != "" && name != "wcu" {
			im.ended[name] = nil
			if whole && n.BitLen() <= 126 {
				im.ended[name] = n
			}
		}
		if len(m.name) > 5 && strings.HasPrefix(m.name, "s_") && strings.HasSuffix(m.name, "_ep") {
			im.undivided = true
		}
		if m.name == "dn" && whole && n.IsInt64() && n.Sign() >= 0 {
			if im.used[""] != nil {
				return nil, errors.New("dn twice")
			}
			im.limits[""], im.used[""] = map[string]int64{"tc": n.Int64()}, n
		}
		if m.name == "hu" {
			im.until, _ = number(m.value)
		}
		if l := limitAttr.FindStringSubmatch(m.name); l != nil {
			if !full && l[2] != "tc" {
				continue
			}
			if !whole || o.twice(m.name) || l[2] == "tc" && n.BitLen() > 126 {
				return nil, fmt.Errorf("limit attribute %q", m.name)
			}
			if im.limits[l[1]] == nil {
				im.limits[l[1]] = map[string]int64{}
			}
			if im.limits[l[1]][l[2]] = nearest(n); l[2] == "tc" {
				im.limits[l[1]]["tc"], im.used[l[1]] = low(n), n
			}
			continue
		}
		to := map[string]**int64{"rf": &im.rf, "shard_count": &im.count}
		if full {
			to["ttl"] = &im.ttl
		}
		if to[m.name] != nil {
			n, ok := number(m.value)
			if !ok || o.twice(m.name) || m.name == "shard_count" && (n < 1 || n > 1<<20) {
				return nil, fmt.Errorf("attribute %q", m.name)
			}
			*to[m.name] = &n
		}
		if full && (m.name == "cascade" || m.name == "parent_id") && o.twice(m.name) {
			return nil, fmt.Errorf("attribute %q twice", m.name)
		}
	}
	if v, ok := o.once("cascade"); ok {
		a, _ := members(v)
		im.cascade = len(a) == 1 && a[0].name == "BOOL" && string(a[0].value) == "true"
	}
	if v, ok := o.once("parent_id"); ok {
		im.parent, _ = attribute(v, "S")
	}
	if v, ok := o.once("rr"); ok && !o.twice("rr") {
		im.rests = naiveRests(v, im.rf)
	}
	if v, ok := o.once("gn"); ok && !o.twice("gn") {
		im.generation, _ = number(v)
	}
	if v, ok := o.once("bn"); ok && !o.twice("bn") {
		im.born, _ = number(v)
		im.born = max(0, im.born)
	}
	return im, nil
}

func naiveWhole(raw json.RawMessage) (*big.Int, bool) {
	s, ok := attribute(raw, "N")
	n, isInt := new(big.Int).SetString(s, 10)
	return n, ok && isInt && wholeNumber.MatchString(s)
}

func naiveRests(raw json.RawMessage, rf *int64) map[string]int64 {
	inner := func(raw json.RawMessage) (object, bool) {
		o, ok := members(raw)
		if !ok || len(o) != 1 || o[0].name != "M" {
			return nil, false
		}
		return members(o[0].value)
	}
	o, ok := inner(raw)
	of, _ := o.once("rf")
	n, isInt := number(of)
	if !ok || !isInt || rf == nil || n != *rf || o.twice("rf") || o.twice("r") {
		return nil
	}
	r, has := o.once("r")
	if !has {
		return nil
	}
	list, ok := inner(r)
	if !ok || len(list) > maxRests {
		return nil
	}
	out := map[string]int64{}
	for _, m := range list {
		n, ok := number(m.value)
		if !ok || list.twice(m.name) {
			return nil
		}
		out[m.name] = n
	}
	return out
}
