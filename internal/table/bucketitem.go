package table

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Item returns the bucket in stored form.
func (b Shard) Item() item.Item {
	shard := strconv.Itoa(b.State.Shard)
	b.State = b.State.Stored()
	it := make(item.Item, 16+5*len(b.State.Slots))
	k := b.Key()
	it[item.AttrPK], it[item.AttrSK] = item.S(k.PK), item.S(k.SK)
	it[layout.AttrEntityID], it[layout.AttrResource] = item.S(b.Entity), item.S(b.Resource)
	if !b.State.NoClock {
		it[layout.AttrRF] = item.N(b.State.RF)
	}
	it[layout.AttrCascade] = item.Bool(b.Cascade)
	if b.Parent != "" {
		it[layout.AttrParentID] = item.S(b.Parent)
	}
	it[AttrShardCount] = item.N(int64(b.State.Count()))
	if b.TTL > 0 {
		it[layout.AttrTTL] = item.N(b.TTL)
	}
	it[item.AttrGSI2PK] = item.S(layout.ResourcePK(b.Namespace, b.Resource))
	it[item.AttrGSI2SK] = item.S(layout.BucketPKPart + b.Entity + "#" + shard)
	it[item.AttrGSI3PK] = item.S(layout.EntityPK(b.Namespace, b.Entity))
	it[item.AttrGSI3SK] = item.S(layout.BucketPKPart + b.Resource + "#" + shard)
	layout.WithGSI4(it, b.Namespace, "BUCKET#"+b.Entity+"#"+b.Resource+"#"+shard)
	for _, sl := range b.State.Slots {
		formOf(sl.Limit).put(it, sl)
	}
	if b.State.HeldUntil != 0 {
		it[AttrHeldUntil] = item.N(b.State.HeldUntil)
	}
	b.putQuotas(it)
	if rr := remainders(b.State); rr != nil {
		it[AttrRemainders] = rr
	}
	if b.Generation != 0 {
		it[AttrGeneration] = item.N(b.Generation)
	}
	if b.Born != 0 {
		it[AttrBorn] = item.N(b.Born)
	}
	if b.Denied != 0 {
		it[AttrDenied] = item.N(b.Denied)
	}
	return it
}

// mostShards is the highest shard count that an item may have.
const mostShards = 1 << 20

// DecodeShard decodes a bucket item. It is strict about the attributes it uses, and ignores the
// rest: numbers must be whole and fit 64 bits, and limits must make sense. A limit with missing
// attributes goes to Partial. The error is an ErrUnreadable that names the item, the attribute, its
// value and how to repair it.
func DecodeShard(it item.Item) (Shard, error) {
	k := item.KeyOf(it)
	ns, entity, resource, shard, ok := layout.ParseBucketPK(k.PK)
	if !ok || k.SK != layout.SKBucketState {
		return Shard{}, fmt.Errorf("%w: item with key PK %q, SK %q: not a bucket key", ErrUnreadable, k.PK, k.SK)
	}
	b := Shard{Namespace: ns, Entity: entity, Resource: resource}
	b.State = bucket.State{Shard: shard, Shards: 1, Slots: make([]bucket.Slot, 0, max(1, (len(it)-12)/5))}
	if err := b.decodeAttributes(it); err != nil {
		return Shard{}, fmt.Errorf("%w: item %q: %w; `zae-limiter reset`, or Reset of package admin, makes it anew",
			ErrUnreadable, k.PK, err)
	}
	return b, nil
}

func (b *Shard) decodeAttributes(it item.Item) error {
	rf, ok, err := item.Int(it, layout.AttrRF)
	if err != nil {
		return err
	}
	b.State.RF, b.State.NoClock = rf, !ok
	count, ok, err := item.Int(it, AttrShardCount)
	if err != nil {
		return err
	}
	switch {
	case !ok:
		b.NoShardCount = true
	case count < 1 || count > mostShards:
		return fmt.Errorf("attribute %q is %d, want 1 to %d", AttrShardCount, count, mostShards)
	default:
		b.State.Shards = int(count)
	}
	if b.TTL, _, err = item.Int(it, layout.AttrTTL); err != nil {
		return err
	}
	if b.Generation, _, err = item.Int(it, AttrGeneration); err != nil {
		return err
	}
	if b.State.HeldUntil, _, err = item.Int(it, AttrHeldUntil); err != nil {
		return err
	}
	if born, _, err := item.Int(it, AttrBorn); err == nil {
		b.Born = max(0, born) // in another form it is another client's
	}
	if denied, _, err := item.Int(it, AttrDenied); err == nil {
		b.Denied = max(0, denied)
	}
	if c, ok := it[layout.AttrCascade].(*types.AttributeValueMemberBOOL); ok {
		b.Cascade = c.Value
	}
	if p, ok := it[layout.AttrParentID].(*types.AttributeValueMemberS); ok {
		b.Parent = p.Value
	}
	if err := b.Calendars.decode(it); err != nil {
		return err
	}
	if err := b.decodeLimits(it); err != nil {
		return err
	}
	return b.decodeRemainders(it[AttrRemainders])
}

func (b *Shard) decodeLimits(it item.Item) error {
	var sl bucket.Slot
	for attr := range it {
		missing, err := b.decodeLimit(it, attr, &sl)
		if err != nil {
			return err
		}
		if sl.Name == "" {
			continue
		}
		if missing {
			b.Partial = append(b.Partial, PartialLimit{Name: sl.Name, Tokens: sl.Tokens, Used: sl.Used})
		} else {
			b.addSlot(&sl)
		}
		sl = bucket.Slot{}
	}
	return nil
}

// addSlot inserts a slot in order of name, because a map's order must not affect the state.
func (b *Shard) addSlot(sl *bucket.Slot) {
	all := append(b.State.Slots, *sl)
	at := len(all) - 1
	for ; at > 0 && all[at-1].Name > sl.Name; at-- {
		all[at] = all[at-1]
	}
	all[at] = *sl
	b.State.Slots = all
}

// decodeLimit decodes a limit if attr is the one attribute that determines the limit's form. For
// all other attributes the slot has no name. missing reports that only part of the limit is stored.
func (b *Shard) decodeLimit(it item.Item, attr string, sl *bucket.Slot) (missing bool, err error) {
	if name, ok := limitOfEpoch(attr); ok {
		*sl, err = b.decodeSlots(it, name)
		return false, err
	}
	name, ok := limitOfTokens(attr)
	if !ok {
		return false, nil
	}
	names := namesOf(name)
	if it[names.epoch] != nil { // an in-flight limit has this name
		return false, nil
	}
	sl.Name = name
	if missing, err = b.decodeSlot(it, names, sl); err == nil && !missing {
		err = b.Calendars.quota(it, sl, b.State.RF)
		sl.Held = min(sl.Held, sl.Capacity) // the capacity in force
	}
	return missing, err
}

// limitOfTokens returns the limit whose level the attribute holds.
func limitOfTokens(attr string) (string, bool) {
	const pre, suf = "b_", "_" + FieldTokens
	if len(attr) <= len(pre)+len(suf) || !strings.HasPrefix(attr, pre) || !strings.HasSuffix(attr, suf) {
		return "", false
	}
	return attr[len(pre) : len(attr)-len(suf)], true
}

// decodeSlot decodes one limit, whose name is set. A level beyond 64 bits becomes the nearest
// number of 64 bits.
func (b *Shard) decodeSlot(it item.Item, names *limitNames, sl *bucket.Slot) (missing bool, err error) {
	level := names.level()
	for i, to := range [len(fields)]*int64{&sl.Tokens, &sl.Capacity, &sl.Amount, &sl.Period, &sl.Used} {
		attr := level[i]
		n, ok, err := item.Int(it, attr)
		if err != nil {
			switch to {
			case &sl.Tokens:
				n, ok = item.Saturated(it[attr])
			case &sl.Used:
				n, ok = b.outgrown(it, attr)
			}
			if !ok {
				return false, err
			}
		}
		missing = missing || !ok
		*to = n
	}
	if missing {
		return true, nil
	}
	for i, n := range [...]int64{sl.Capacity, sl.Amount, sl.Period} {
		if n < 0 || n == 0 && i != 1 { // only a quota has amount 0
			return false, notPositive(sl.Name, fields[1+i], n)
		}
	}
	if sl.Name != bucket.WCU {
		_, sl.Soft = it[names.soft]
		err = b.decodeHeld(it, names, sl)
	}
	return false, err
}

// decodeHeld decodes the held tokens of a limit, and the counter of tokens that expired unspent.
func (b *Shard) decodeHeld(it item.Item, names *limitNames, sl *bucket.Slot) (err error) {
	if v, ok := it[names.held]; ok {
		held, ok := item.Saturated(v)
		if !ok {
			return fmt.Errorf("attribute %q is %s: %w", names.held, item.Shown(v), item.ErrNotInteger)
		}
		sl.Held = max(0, bucket.SubSat(0, held))
	}
	if sl.Ended, _, err = item.Int(it, names.ended); err != nil {
		var ok bool
		if sl.Ended, ok = b.outgrown(it, names.ended); ok {
			err = nil
		}
	}
	return err
}
