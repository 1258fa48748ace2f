package item

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Limits of DynamoDB requests and items (developer guide, "Quotas", and API
// reference).
const (
	MaxItemSize      = 400 << 10
	MaxExpression    = 4 << 10 // bytes of one rendered expression
	MaxOperators     = 300     // operators and functions in one update
	MaxTransactItems = 100
	MaxTransactSize  = 4 << 20
	MaxTokenLength   = 36
	MaxReadKeys      = 100
	MaxRemoveKeys    = 25
	maxPartitionKey  = 2048
	MaxSortKey       = 1024
	maxNesting       = 31 // nested maps and lists in an item
	maxAttributeName = 64<<10 - 1
)

// Validate returns an error for a write that DynamoDB refuses regardless of the stored item: a key,
// value, name or expression is beyond its limits, two actions change one attribute, or bounds are
// in the wrong order.
func Validate(w Write) error {
	if err := validateKey(w.Target()); err != nil {
		return err
	}
	switch w := w.(type) {
	case Update:
		return w.validate()
	case Put:
		if err := ValidateItem(w.Item); err != nil {
			return err
		}
		return validateCond(w.If)
	case Delete:
		return validateCond(w.If)
	case Check:
		if w.If == nil || newNames().condition(w.If) == "" {
			return errors.New("check without a condition")
		}
		return validateCond(w.If)
	}
	return fmt.Errorf("%T is no write", w)
}

func validateKey(k Key) error {
	switch {
	case k.PK == "" || k.SK == "":
		return fmt.Errorf("key with an empty part: PK %q, SK %q", k.PK, k.SK)
	case len(k.PK) > maxPartitionKey:
		return fmt.Errorf("partition key of %d bytes, at most %d are accepted", len(k.PK), maxPartitionKey)
	case len(k.SK) > MaxSortKey:
		return fmt.Errorf("sort key of %d bytes, at most %d are accepted", len(k.SK), MaxSortKey)
	}
	return nil
}

// ValidateItem returns an error for an item that DynamoDB cannot store.
func ValidateItem(it Item) error {
	if err := validateKey(KeyOf(it)); err != nil {
		return err
	}
	for name, v := range it {
		if err := validateAttr(Attr{name, v}); err != nil {
			return err
		}
	}
	if n := Size(it); n > MaxItemSize {
		return fmt.Errorf("item of %d bytes, at most %d are accepted", n, MaxItemSize)
	}
	return nil
}

func (u Update) validate() error {
	seen := map[string]bool{AttrPK: true, AttrSK: true}
	once := func(attr string) error {
		if seen[attr] {
			return fmt.Errorf("attribute %q is named by two actions or is part of the key", attr)
		}
		seen[attr] = true
		return validateName(attr)
	}
	for _, list := range [][]Attr{u.Set, u.SetIfAbsent, u.Add, u.Del} {
		for _, a := range list {
			if err := errors.Join(once(a.Name), validateAttr(a)); err != nil {
				return err
			}
		}
	}
	for _, l := range u.SetLess {
		if _, ok := l.Value.(*types.AttributeValueMemberN); !ok {
			return fmt.Errorf("attribute %q: only a number can be subtracted from", l.Name)
		}
		if err := errors.Join(once(l.Name), validateName(l.Minus), validateAttr(Attr{l.Name, l.Value})); err != nil {
			return err
		}
	}
	for _, name := range u.Remove {
		if err := once(name); err != nil {
			return err
		}
	}
	for _, a := range u.Add {
		switch a.Value.(type) {
		case *types.AttributeValueMemberN, *types.AttributeValueMemberSS:
		default:
			return fmt.Errorf("attribute %q: ADD takes a number or a string set", a.Name)
		}
	}
	for _, a := range u.Del {
		if _, ok := a.Value.(*types.AttributeValueMemberSS); !ok {
			return fmt.Errorf("attribute %q: DELETE takes a string set", a.Name)
		}
	}
	n := newNames()
	if x := u.expression(n); x != "" {
		if len(x) > MaxExpression {
			return fmt.Errorf("update expression of %d bytes, at most %d are accepted", len(x), MaxExpression)
		}
		// An action that contains an operator or function counts once for each.
		if ops := len(u.Set) + 2*len(u.SetLess) + 2*len(u.SetIfAbsent); ops > MaxOperators {
			return fmt.Errorf("update expression with %d operators, at most %d are accepted", ops, MaxOperators)
		}
	}
	return validateCond(u.If)
}

func validateName(name string) error {
	if name == "" || len(name) > maxAttributeName {
		return fmt.Errorf("attribute name of %d bytes, 1 to %d are accepted", len(name), maxAttributeName)
	}
	return nil
}

func validateAttr(a Attr) error {
	if err := validateName(a.Name); err != nil {
		return err
	}
	if slices.Contains(indexKeys, a.Name) {
		s, ok := a.Value.(*types.AttributeValueMemberS)
		if !ok || s.Value == "" {
			return fmt.Errorf("attribute %q: the key of an index must be a string that is not empty", a.Name)
		}
		most := maxPartitionKey
		if strings.HasSuffix(a.Name, AttrSK) {
			most = MaxSortKey
		}
		if len(s.Value) > most {
			return fmt.Errorf("attribute %q: %d bytes, at most %d are accepted in the key of an index", a.Name, len(s.Value),
				most)
		}
	}
	if err := validateValue(a.Value, 0); err != nil {
		return fmt.Errorf("attribute %q: %w", a.Name, err)
	}
	return nil
}

func validateCond(c Cond) error {
	if c == nil {
		return nil
	}
	text := newNames().condition(c)
	if text == "" {
		return nil
	}
	if len(text) > MaxExpression {
		return fmt.Errorf("condition expression of %d bytes, at most %d are accepted", len(text), MaxExpression)
	}
	ops, err := checkCond(c)
	if err == nil && ops > MaxOperators {
		err = fmt.Errorf("condition expression with %d operators, at most %d are accepted", ops, MaxOperators)
	}
	return err
}

// checkCond returns the operators and functions of a condition, and an error
// for operands that DynamoDB refuses.
func checkCond(c Cond) (ops int, err error) {
	switch c := c.(type) {
	case storedCond:
		return 1, validateName(c.attr)
	case *compareCond:
		err := errors.Join(validateName(c.attr), validateValue(c.v, 0))
		if c.op != Eq && !ordered(c.v) {
			err = errors.Join(err, fmt.Errorf("attribute %q: %T has no order", c.attr, c.v))
		}
		return 1, err
	case betweenCond:
		err := errors.Join(validateName(c.attr), validateValue(c.lo, 0), validateValue(c.hi, 0))
		if o, ok := compare(c.lo, c.hi); !ok || o > 0 {
			err = errors.Join(err, fmt.Errorf("attribute %q: the lower bound is not below the upper one", c.attr))
		}
		return 1, err
	case allCond:
		return checkConds(c)
	case anyCond:
		for _, x := range c {
			if newNames().condition(x) == "" {
				return 0, errors.New("alternative without a condition")
			}
		}
		if len(c) == 0 {
			return 0, errors.New("choice without alternatives")
		}
		return checkConds(c)
	}
	return 0, fmt.Errorf("%T is no condition", c)
}

func checkConds(list []Cond) (ops int, err error) {
	for _, c := range list {
		n, e := checkCond(c)
		ops, err = ops+n, errors.Join(err, e)
	}
	return ops + max(0, len(list)-1), err
}

func ordered(v Value) bool {
	switch v.(type) {
	case *types.AttributeValueMemberS, *types.AttributeValueMemberN, *types.AttributeValueMemberB:
		return true
	}
	return false
}
