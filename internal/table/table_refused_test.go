package table

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// What a write was planned from, and is refused without. In names of attributes, ? is each
// limit, + also the meter.
const (
	count   = "shard_count = "
	life    = "gn = ; rf <= ; " + count                              // another life, or a clock far ahead
	foreign = "(attribute_not_exists(gn) OR gn = ); rf = ; " + count // an item that another client made
	rules   = "b_+_cp = ; b_+_ra = ; b_+_rp = "                      // 10 tokens of 10 are not 10 of 20
	image   = life + "; " + rules                                    // all that is remembered
	spent   = "b_?_tc <= "                                           // others took what was there
	charge  = image + "; " + spent
	held    = "(attribute_not_exists(hu) OR hu <= )" // others hold for longer
	noEdge  = "(attribute_not_exists(vu) OR vu > )"  // the limit has changed
	slotted = charge + "; s_fly_cp = ; s_fly_rp = "
	asTold  = "s_fly_ep = ; s_fly_0 = ; s_fly_1 = ; s_fly_2 = " // somebody took some meanwhile
	counts  = "s_fly_ep BETWEEN ; s_fly_2 >= "                  // the slots are lost
	idle    = "(s_fly_ep BETWEEN  OR s_fly_ep <  AND "          // another epoch
	added   = "attribute_not_exists(_#); total_events = "       // an older version has added to it
	isNew   = "attribute_not_exists(PK)"                        // nobody came first
	// none is sound and later
	newer   = "(attribute_not_exists(deleted_until) OR deleted_until <  OR deleted_until > )"
	isThere = "attribute_exists(PK)"                 // nothing is made of nothing
	levels  = isThere + "; attribute_exists(b_?_tk)" // nor half a limit
	meter   = "attribute_exists(b_wcu_tk)"
	status  = "status = "
	mine    = "(" + status + " OR " + status + ")" // of two that a write goes on from

	inWindow = life + "; b_rpm_cp = ; b_rpm_ra = ; b_rpm_rp = ; b_rpm_tc <= ; b_wcu_cp = ; b_wcu_ra = ; " +
		"b_wcu_rp = ; vu = "
	quotaAdd = count + "; rf >= ; " + meter + "; " + held + "; b_tpd_rsched = ; b_tph_rsa = ; sched_tz = ; " +
		"vu > ; attribute_not_exists(sched); b_rpm_cp = ; b_rpm_ra = ; b_rpm_rp = ; " +
		"b_rpm_tk BETWEEN ; (attribute_not_exists(ttl) OR ttl > ); " +
		"b_tpd_cp = ; b_tpd_ra = ; b_tpd_tk >= ; b_tph_cp = ; b_tph_ra = ; b_tph_tk >= "
)

// guards is what each call is refused without, its writes apart by |.
var guards = map[string]string{
	"create": isNew, "create empty": isNew,

	"acquire": charge, "acquire within a second": charge, "acquire on a full bucket": charge,
	"acquire on a full bucket in a crowd, leaving room for adds": charge,
	"acquire on an item that another client made":                foreign + "; " + rules + "; " + spent,
	"acquire on an item without a clock and a count": isThere + "; (attribute_not_exists(gn) OR gn = ); " +
		"attribute_not_exists(rf); attribute_not_exists(shard_count); " + rules + "; " + spent,
	"acquire on an item whose clock is broken":         "gn = ; " + count + "; " + rules + "; " + spent,
	"acquire on an item with a counter beyond 64 bits": charge,
	"acquire with changed limits":                      charge, // of two that change them, one begins a generation
	"acquire with new limits":                          life + "; attribute_not_exists(b_+_tk)",
	"acquire with other limits in force":               charge + "; b_zzz_tc <= ",
	"acquire on a split bucket":                        charge,
	"acquire where others hold":                        charge,
	"acquire that takes ahead":                         charge + "; " + held,
	"acquire that takes ahead where others hold":       charge + "; " + held,
	"acquire that takes ahead and mends":               charge + "; " + held,
	"mend":                                             foreign + "; b_+_tk = ",
	"settle by force":                                  image, // whatever others took
	"settle by force into more debt":                   image,
	"give back by force":                               image,
	"refill":                                           charge,
	"refill of debt":                                   image, // it stays one
	"raise":                                            charge,
	"drain":                                            charge,
	"cold": count + "; rf >= ; " + meter + "; " + held + "; " + noEdge +
		"; b_?_cp = ; b_?_ra = ; b_?_rp = ; b_?_tk BETWEEN ; " +
		"(attribute_not_exists(ttl) OR ttl > )",
	"adjust":           levels + "; " + meter,
	"adjust unmetered": levels,

	"split":                                  charge + " | " + isNew,
	"split of debt":                          image + "; b_?_tc >= | " + isNew,
	"recount":                                charge,
	"merge":                                  image + "; b_?_tc = | " + charge,
	"merge of what is held":                  image + "; b_?_tc = | " + charge + "; " + held,
	"discount":                               charge + " | " + isNew,
	"discount of an uncut shard":             image + "; b_?_tk = | " + isNew,
	"restore":                                isNew + " | " + count,
	"restore a shard that shard 1 split off": isNew + " | " + count + "; b_?_tk >= | shard_count >= ",
	"restore from a count that another client raised": isNew + " | " + count + "; b_?_tk >= ",
	"counts":       count,
	"look":         isThere + "; shard_count >= ",
	"keep forever": "attribute_exists(ttl); shard_count > ",
	"prolong":      "ttl < ",

	"add to a schedule": count + "; rf >= ; " + meter + "; " + held + "; b_rpm_sched = ; sched_tz = ; vu > ; " +
		"vu <= ; attribute_not_exists(sched); b_rpm_cp = ; b_rpm_ra = ; b_rpm_rp = ; b_rpm_tk BETWEEN ; " +
		"(attribute_not_exists(ttl) OR ttl > )",
	"acquire in the next window": inWindow,
	"add to a raise": count + "; rf >= ; " + meter + "; " + held + "; b_rpm_more = ; vu > ; vu <= ; " +
		"attribute_not_exists(sched); b_rpm_cp = ; b_rpm_ra = ; b_rpm_rp = ; b_rpm_tk BETWEEN ; " +
		"(attribute_not_exists(ttl) OR ttl > )",
	"acquire behind a raise": inWindow,
	"acquire with a raise": life + "; b_rpm_cp = ; b_rpm_ra = ; b_rpm_rp = ; b_rpm_tc <= ; b_wcu_cp = ; b_wcu_ra = ; " +
		"b_wcu_rp = ; attribute_not_exists(vu)",
	"acquire without the schedule": inWindow,
	"add to quotas":                quotaAdd,
	"count denials besides":        quotaAdd,
	"count denials alone":          isThere + "; " + meter,
	"give back to quotas": levels + "; " + meter +
		"; rf < ; attribute_not_exists(b_tpd_rn); b_tph_wa = ; b_tph_ws = ",
	"give up what is held": levels + "; " + meter +
		"; rf < ; attribute_not_exists(b_tpd_rn); b_tph_wa = ; b_tph_ws = ; gn = ",
	"give back to a quota that was reset": isThere + "; " + meter + "; attribute_exists(b_tpd_tk); rf < ; b_tpd_rn = ",
	"credit and reset quotas":             image + "; vu = ; b_?_tc <= ",
	"acquire in the next period":          image + "; vu = ; b_rpm_tc <= ",
	"acquire with quotas that are new": life + "; b_rpm_cp = ; b_rpm_ra = ; b_rpm_rp = ; b_rpm_tc <= ; " +
		"b_wcu_cp = ; b_wcu_ra = ; b_wcu_rp = ; attribute_not_exists(vu); " +
		"attribute_not_exists(b_tpd_tk); attribute_not_exists(b_tph_tk)",

	"slots: in the epoch of the image":    slotted + "; s_fly_ep = ; s_fly_2 <= ",
	"slots: in the next epoch":            slotted + "; s_fly_0 <= ; s_fly_2 <= ; " + idle + "s_fly_0 =  AND s_fly_2 = )",
	"slots: when the dead are in the way": slotted + "; s_fly_ep <",
	"slots: without a slot":               slotted,
	"slots: new to the item":              charge + "; attribute_not_exists(s_fly_ep)",
	"slots: more slots":                   slotted + "; s_fly_ep = ; s_fly_2 <= ",
	"slots: shorter epochs":               slotted + "; " + asTold,
	"slots: of another kind": image + "; s_fly_cp = ; s_fly_rp = ; " + asTold +
		"; attribute_not_exists(b_fly_tk); attribute_not_exists(s_rpm_ep)",
	"slots: in an epoch that no sound clock has begun": slotted + "; " + asTold,
	"slots: dropped":             charge + "; " + asTold,
	"slots: given back by force": slotted + "; " + counts,
	"slots: cold": count + "; rf >= ; " + meter + "; " + held + "; " + noEdge +
		"; s_fly_cp = ; s_fly_rp = ; s_fly_1 <= ; s_fly_2 <= ; " +
		idle + "s_fly_2 =  AND s_fly_1 = ); b_rpm_cp = ; b_rpm_ra = ; b_rpm_rp = ; " +
		"b_rpm_tk BETWEEN ; (attribute_not_exists(ttl) OR ttl > )",
	"slots: given back": isThere + "; " + meter + "; " + counts,
	"slots: moved":      isThere + "; " + meter + "; " + counts,
	"slots: moved, and its expiry too": isThere + "; " + meter + "; " + counts +
		"; (attribute_not_exists(ttl) OR ttl <= )",
	"slots: split": slotted + " | " + isNew,
	"slots: merge": image + "; s_fly_cp = ; s_fly_rp = ; b_?_tc = | " + slotted,

	"register": isNew + " | " + isNew, "in use": status,
	"retire":                     "namespace_id = | " + status,
	"recover":                    isNew + " | " + mine,
	"recover what lost its name": isNew + " | " + mine,
	"purge":                      mine,
	"purge again":                mine,
	"purged":                     "(" + isNew + " OR " + status + ")",
	"purged again":               "(" + isNew + " OR " + status + ")",
	"note a deletion":            newer,
	"note a later deletion":      newer,
	"note what is odd":           newer,
	"note a purge":               newer,
	"version":                    isNew, "disown": "lambda_version = ",
	"entity": isNew, "entity changes": isThere, "entity moves": isThere,
	"entity is unchanged":       isThere + "; parent_id = ",
	"entity has no parent":      isThere + "; (parent_id =  OR attribute_not_exists(parent_id))",
	"discard":                   isThere + "; gn = ; shard_count = ",
	"discard what says nothing": isThere + "; attribute_not_exists(gn); attribute_not_exists(shard_count)",
	"replace limits":            "", "store limits over others": isThere, // as it is told
	"change limits": isThere,
	"delete limits": isThere + "; attribute_not_exists(disabled); attribute_not_exists(cascade); " +
		"attribute_not_exists(on_unavailable); attribute_not_exists(audit_retention_days)",
	"adopt": isThere, "adopt without a parent": isThere,
	"enable": isNew, "decide nothing any more": isThere,
	"tell a bucket that it is enabled": isThere, "tell a bucket that it is bypassed": isThere,
	"tell a bucket": isThere, "declare": isThere,
	"take back what a manifest declared": isThere,
	"keep audit":                         "", "add resource": "", "remove resource": "", "count configs": "",
	"forget configs":          "gpt <= ",
	"new page":                isNew,
	"page over a foreign one": isThere + "; attribute_not_exists(applied_hash)",
	"page over another":       "applied_hash = ",
	"operation":               isNew,
	"owed":                    "", "audit": "", // named by what they hold, and by chance
	"claim at first":   "attribute_not_exists(settled); attribute_not_exists(claimed)",
	"claim":            "settled = ; claimed = ",
	"advance at first": "attribute_not_exists(settled); claimed = ",
	"advance":          "settled = ; claimed = ",

	"usage, not seen":                  "(" + isNew + " OR _# = ); attribute_not_exists(_0)",
	"usage, not seen, and expected":    "_# = ; _0 >= ; _0 < ",
	"usage, seen":                      "_# = ; _0 = ; attribute_not_exists(_1); _= = ",
	"usage, seen by others only":       "attribute_not_exists(_#); attribute_not_exists(_0); attribute_not_exists(_=)",
	"first sum":                        isNew,
	"sum in place of what was counted": "attribute_not_exists(_*); " + added,
	"sum over a sum":                   "_* = ; " + added,
}

// The conditions of every write are those that are said here, and none is there for nothing:
// for each there is a change of what the write was planned for that it alone refuses.
func TestEveryConditionIsSeenRefusing(t *testing.T) {
	played := 0
	rates, quotas := allWrites(t, sampleLimits), quotaWrites(t)
	slots := slotsWrites(t, []bucket.Limit{slotsLimit("fly", 10), sampleLimits[0]})
	for _, c := range slices.Concat(rates, quotas, slots, otherWrites(t)) {
		limits := sampleLimits
		if slices.ContainsFunc(quotas, func(q call) bool { return q.name == c.name }) {
			limits = quotaLimits
		}
		if strings.HasPrefix(c.name, "slots: ") {
			limits = sampleLimits[:1]
		}
		text, said := guards[c.name]
		want := strings.Split(text, "|")
		if !said || len(want) != len(c.writes) {
			t.Errorf("%s: %d writes, guarded by %q", c.name, len(c.writes), want)
			continue
		}
		for i, w := range c.writes {
			if _, ok, err := w.Apply(c.on[i]); err != nil || !ok {
				t.Errorf("%s: write %d: held %v, %v by what it was planned for", c.name, i, ok, err)
			}
			all := conditions(condition(w))
			have := []string{}
			for j, cond := range all {
				have = append(have, without(w, cond))
				// That something is there follows from any other condition on what it has.
				if have[j] != isThere && !refusesAlone(w, c.on[i], all, j) {
					t.Errorf("%s: write %d: nothing is refused by %q alone", c.name, i, have[j])
				}
				played++
			}
			slices.Sort(have)
			if w := expanded(want[i], limits); !slices.Equal(have, w) {
				t.Errorf("%s: write %d is refused without\n%q, want\n%q", c.name, i, have, w)
			}
		}
	}
	t.Logf("%d conditions seen refusing", played)
}

// condition returns the condition of a write, nil for none.
func condition(w item.Write) item.Cond {
	switch w := w.(type) {
	case item.Update:
		return w.If
	case item.Put:
		return w.If
	case item.Delete:
		return w.If
	}
	return w.(item.Check).If
}

// conditions returns the conditions that all have to hold.
func conditions(c item.Cond) (out []item.Cond) {
	v := reflect.ValueOf(c)
	if !v.IsValid() {
		return nil
	}
	if v.Type() != reflect.TypeOf(item.All()) {
		return []item.Cond{c}
	}
	for i := range v.Len() {
		out = append(out, conditions(v.Index(i).Interface().(item.Cond))...)
	}
	return out
}

var valueAlias = regexp.MustCompile(`(:[0-9]+ AND )?:[0-9]+`)

// without is a condition without its values.
func without(w item.Write, c item.Cond) string {
	r := render(item.Check{Key: w.Target(), If: c})
	text := valueAlias.ReplaceAllString(r.cond, "")
	text = alias.ReplaceAllStringFunc(text, func(a string) string { return r.names[a] })
	return strings.TrimSpace(text)
}

// expanded is a list of guards, one for each limit where it says so, sorted.
func expanded(guards string, limits []bucket.Limit) []string {
	out := []string{}
	for g := range strings.SplitSeq(guards, ";") {
		g = strings.TrimSpace(g)
		for _, l := range limits {
			if strings.ContainsAny(g, "?+") {
				out = append(out, strings.NewReplacer("?", l.Name, "+", l.Name).Replace(g))
			}
		}
		if strings.Contains(g, "+") {
			out = append(out, strings.ReplaceAll(g, "+", bucket.WCU))
		}
		if g != "" && !strings.ContainsAny(g, "?+") {
			out = append(out, g)
		}
	}
	slices.Sort(out)
	return out
}

// refusesAlone reports whether there is a change of the item, of what condition i is about,
// by which all other conditions hold and the write is refused.
func refusesAlone(w item.Write, on item.Item, all []item.Cond, i int) bool {
	r := render(item.Check{Key: w.Target(), If: all[i]})
	var changed []item.Item
	for _, attr := range r.names {
		if attr == item.AttrPK { // gone, or there
			changed = append(changed, nil, w.Target().Item())
			continue
		}
		values := []item.Value{nil, on[attr], item.S("x")}
		for _, v := range r.values {
			values = append(values, v)
		}
		for _, v := range values[1:] {
			values = append(values, near(v)...)
		}
		for _, v := range values {
			it := maps.Clone(on)
			if it == nil {
				it = w.Target().Item()
			}
			if it[attr] = v; v == nil {
				delete(it, attr)
			}
			changed = append(changed, it)
		}
	}
	for _, it := range changed {
		others := true
		for j, c := range all {
			others = others && (j == i || c.Holds(it))
		}
		if _, ok, err := w.Apply(it); others && !ok && err == nil {
			return true
		}
	}
	return false
}

// near returns values beside a value.
func near(v item.Value) []item.Value {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		n, _, _ := item.Int(item.Item{"": v}, "")
		return []item.Value{item.N(n - 1), item.N(n + 1)}
	case *types.AttributeValueMemberS:
		return []item.Value{item.S(v.Value + "x")}
	case *types.AttributeValueMemberB:
		return []item.Value{item.B(append(bytes.Clone(v.Value), 0)), item.B(v.Value[:len(v.Value)-1])}
	case nil:
		return []item.Value{item.N(0), item.S("x"), item.B([]byte{1})}
	}
	return nil
}

// Every function of the package that returns a write is among those above.
func TestEveryWriteIsPlayed(t *testing.T) {
	files, _ := filepath.Glob("../*/*.go")
	files = slices.DeleteFunc(files, func(path string) bool {
		return !slices.Contains([]string{"table", "config", "ledger"}, filepath.Base(filepath.Dir(path)))
	})
	called, planned := map[string]bool{}, []string{}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains([]string{"table_writes_test.go", "table_otherwrites_test.go", "inflight_test.go"},
			filepath.Base(path)) {
			callsIn(f, called)
		}
		if !strings.HasSuffix(path, "_test.go") {
			planned = append(planned, plannersIn(f)...)
		}
	}
	for _, name := range planned {
		if !called[name] {
			t.Errorf("%s plans a write, and is in neither allWrites nor otherWrites", name)
		}
	}
	if len(planned) < 40 {
		t.Errorf("only %d functions found that plan a write", len(planned))
	}
}

// callsIn notes the names of the functions and methods that a file calls.
func callsIn(f *ast.File, called map[string]bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			switch f := c.Fun.(type) {
			case *ast.Ident:
				called[f.Name] = true
			case *ast.SelectorExpr:
				called[f.Sel.Name] = true
			}
		}
		return true
	})
}

// plannersIn returns the exported functions and methods of a file that return writes.
func plannersIn(f *ast.File) (out []string) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !fn.Name.IsExported() || fn.Type.Results == nil {
			continue
		}
		for _, result := range fn.Type.Results.List {
			expr := result.Type
			if list, ok := expr.(*ast.ArrayType); ok {
				expr = list.Elt
			}
			sel, ok := expr.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Write", "Update", "Put", "Delete", "Check"}, sel.Sel.Name) {
				out = append(out, fn.Name.Name)
			}
		}
	}
	return out
}
