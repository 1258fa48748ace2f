package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Over returns the write that stores the configuration over an item (nil: none) under a condition.
// All limits are replaced, including unknown attributes; limits in Unread stay. Other unknown
// attributes stay, too. If the item would be empty, it is deleted.
//
//	stored   l_rpm_cp 10  l_rpm_sched s  l_tpm_cp 500  disabled true
//	over it  rpm 20  disabled
//	after    l_rpm_cp 20                               disabled true
func (c Config) Over(stored item.Item, cond item.Cond) item.Write {
	after := c.Item()
	if stored == nil && !c.Empty() {
		return item.Put{Item: after, If: cond}
	}
	u := item.Update{Key: c.Key(), If: cond}
	left := false
	says := AccessOf(stored).Equal(c.Access) // in any form
	for _, attr := range slices.Sorted(maps.Keys(stored)) {
		switch _, set := after[attr]; {
		case says && slices.Contains(accessAttrs, attr):
			left = true
			delete(after, attr)
		case set:
		case c.owns(attr):
			u.Remove = append(u.Remove, attr)
		default:
			left = true
		}
	}
	if c.Empty() && !left {
		return item.Delete{Key: c.Key(), If: cond}
	}
	setAll(&u, after, attrConfigVersion)
	return u
}

// setAll makes an update store an item, and one of its attributes only if there is none.
func setAll(u *item.Update, it item.Item, once string) {
	for _, attr := range slices.Sorted(maps.Keys(it)) {
		switch a := (item.Attr{Name: attr, Value: it[attr]}); attr {
		case item.AttrPK, item.AttrSK:
		case once:
			u.SetIfAbsent = append(u.SetIfAbsent, a)
		default:
			u.Set = append(u.Set, a)
		}
	}
}

// settings are the attributes that clients add to an existing configuration without incrementing
// its version.
var settings = []string{AttrDisabled, layout.AttrCascade, AttrOnUnavailable, attrAuditRetention}

// Noticed makes a write of Over, under a condition on the old item, detect concurrent writes and be
// detected by them. It increments the version of the configuration: no condition detects an
// attribute that was only added, but every condition detects a new version. And it does not delete
// an item to which a client without versions has added a setting.
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
	return len(c.Limits) == 0 && len(c.Unread) == 0 && len(c.Raises) == 0 && c.OnUnavailable == "" &&
		c.AuditRetentionDays == 0 && c.Access == Access{}
}

// owns reports whether storing the configuration removes an attribute that it does not set: other
// settings of the level, and all attributes that begin like a limit's.
func (c Config) owns(attr string) bool {
	switch attr {
	case AttrOnUnavailable, attrAuditRetention:
		return c.Entity == "" && c.Resource == ""
	case layout.AttrZone:
		return c.Unread == nil
	case attrDeclared, layout.AttrCascade, AttrDisabled:
		return true
	}
	ofLimit := func(prefix string) bool { return strings.HasPrefix(attr, prefix) }
	return c.Unread == nil && slices.ContainsFunc(prefixes, ofLimit)
}
