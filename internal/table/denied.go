package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// CountDenials makes a write also count denied requests. The counter belongs to no limit, and other
// clients do not read it.
func CountDenials(u item.Update, denials int64) item.Update {
	u.Add = append(u.Add, item.Attr{Name: AttrDenied, Value: item.N(denials * bucket.Milli)})
	return u
}
