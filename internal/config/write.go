package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Over returns the write that stores the configuration over what is there (nil:
// nothing) under a condition. What other clients keep in the item stays: a
// resource that one of them has switched off stays off. Only what belongs to a
// limit that goes, or that ours cannot read, goes with it. An item in which nothing
// is left is deleted.
//
//	stored   l_rpm_cp 10  l_rpm_sched s  l_tpm_cp 500  l_tpm_sched s  disabled true
//	over it  rpm 20
//	after    l_rpm_cp 20  l_rpm_sched s                               disabled true
func (c Config) Over(stored item.Item, cond item.Cond) item.Write {
	after := c.Item()
	if stored == nil && !c.Empty() {
		return item.Put{Item: after, If: cond}
	}
	u := item.Update{Key: c.Key(), If: cond}
	left := false
	for _, attr := range slices.Sorted(maps.Keys(stored)) {
		switch _, set := after[attr]; {
		case set:
		case c.owns(attr, stored):
			u.Remove = append(u.Remove, attr)
		default:
			left = true
		}
	}
	if c.Empty() && !left {
		return item.Delete{Key: c.Key(), If: cond}
	}
	for _, attr := range slices.Sorted(maps.Keys(after)) {
		switch a := (item.Attr{Name: attr, Value: after[attr]}); attr {
		case item.AttrPK, item.AttrSK:
		case attrConfigVersion:
			u.SetIfAbsent = append(u.SetIfAbsent, a)
		default:
			u.Set = append(u.Set, a)
		}
	}
	return u
}

// settings are what clients add to a configuration that is there without counting that in its version.
var settings = []string{AttrDisabled, layout.AttrCascade, AttrOnUnavailable, attrAuditRetention}

// Noticed makes a write of Over or SwitchTo, under a condition on what was there, one that others
// notice, and that notices others. It counts the version of the configuration: no condition finds
// what was only added to an item, but each finds that its version is another one. And it deletes
// nothing to which a client that counts no versions has added a setting.
//
//	stored   l_rpm_cp 10  config_version 1
//	over it  rpm 20 if l_rpm_cp = 10 and config_version = 1
//	after    l_rpm_cp 20  config_version 2
func Noticed(w item.Write, stored item.Item) item.Write {
	switch w := w.(type) {
	case item.Update:
		if v, ok := stored[attrConfigVersion]; ok {
			if _, number := v.(*types.AttributeValueMemberN); !number {
				return w
			}
		}
		w.SetIfAbsent = slices.DeleteFunc(slices.Clone(w.SetIfAbsent), func(a item.Attr) bool {
			return a.Name == attrConfigVersion
		})
		w.Add = append(slices.Clip(w.Add), item.Attr{Name: attrConfigVersion, Value: item.N(1)})
		return w
	case item.Delete:
		cond := []item.Cond{w.If}
		for _, attr := range settings {
			if stored[attr] == nil {
				cond = append(cond, item.Absent(attr))
			}
		}
		w.If = item.All(cond...)
		return w
	}
	return w
}

// Empty reports whether the configuration decides nothing.
func (c Config) Empty() bool {
	return len(c.Limits) == 0 && c.OnUnavailable == "" && c.AuditRetentionDays == 0
}

// owns reports whether an attribute that the configuration does not set goes when it
// is stored: what the level stores besides limits, and all of a limit that goes.
func (c Config) owns(attr string, stored item.Item) bool {
	if c.Entity == "" && c.Resource == "" && (attr == AttrOnUnavailable || attr == attrAuditRetention) {
		return true
	}
	at, limit, ok := limitOf(attr, stored)
	if !ok {
		return attr == layout.AttrZone
	}
	for _, l := range c.Limits {
		if l.Name == limit {
			n, _, err := item.Int(stored, at+layout.FieldAmount)
			another := at != kindOf(l).prefix(l)+limit+"_" || kindOf(l).another(l, n) // of another kind, which is replaced
			return err != nil || another || attr == at+layout.FieldSoft || attr == at+fieldFloors ||
				attr == at+fieldAhead
		}
	}
	return true
}

// limitOf returns the limit that an attribute of a stored configuration belongs to:
// the one with the longest name, as names may have underscores. The names of its
// attributes begin with at.
func limitOf(attr string, stored item.Item) (at, limit string, ok bool) {
	for other := range stored {
		prefix, name, is := limitOfConfig(other)
		if begin := prefix + name + "_"; is && len(name) > len(limit) && strings.HasPrefix(attr, begin) {
			at, limit, ok = begin, name, true
		}
	}
	return at, limit, ok
}
