package receiver

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// Bodies are read before anybody is known to have sent them, so strangers must not fill the memory: all small ones
// together have a budget, and one large one is read at a time.
const (
	smallBudget = 32 << 20
	largeAtOnce = 1
	firstPiece  = int64(16 << 10)
)

// Who sends slowly is cut off.
const (
	smallTime = 5 * time.Second
	largeTime = 25 * time.Second
)

var (
	faultBusy    = answer{http.StatusServiceUnavailable, "Too many payloads are being read: try again.", Lost}
	faultLarge   = answer{http.StatusRequestEntityTooLarge, "The payload is too large.", TooLarge}
	faultBroken  = answer{http.StatusBadRequest, "The payload broke off.", Malformed}
	faultTimeout = answer{http.StatusRequestTimeout, "The payload took too long.", Malformed}
)

// bodies is the memory for bodies that are being read. It is safe for concurrent use.
type bodies struct {
	small atomic.Int64
	large chan struct{}
}

func newBodies() *bodies { return &bodies{large: make(chan struct{}, largeAtOnce)} }

// read reads a body of at most limit bytes. The fault's code is 0 if all is well. release gives the memory back,
// and may be called more than once.
func (b *bodies) read(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), fault answer) {
	held := &holding{bodies: b}
	if r.ContentLength > limit {
		return nil, held.release, faultLarge
	}
	most := limit + 1 // one byte more than can come, to see its end
	if r.ContentLength >= 0 {
		most = r.ContentLength + 1
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(smallTime)) // a recorder in a test has none
	from := http.MaxBytesReader(w, r.Body, limit)
	for size := min(firstPiece, most); ; size = min(2*size, most) {
		if size > smallBody+1 && !held.isLarge {
			size = most
			_ = control.SetReadDeadline(time.Now().Add(largeTime))
		}
		if !held.grow(size) {
			return nil, held.release, faultBusy
		}
		body = append(make([]byte, 0, size), body...)
		switch err := fill(from, &body); {
		case errors.Is(err, io.EOF):
			return body, held.release, answer{}
		case err != nil:
			return nil, held.release, faultOf(err)
		case size == most:
			return nil, held.release, faultBroken // longer than it says
		}
	}
}

// fill reads until the room that a slice has is used.
func fill(from io.Reader, body *[]byte) error {
	for b := *body; len(b) < cap(b); *body = b {
		n, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil {
			*body = b
			return err
		}
	}
	return nil
}

func faultOf(err error) answer {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return faultLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return faultTimeout
	}
	return faultBroken
}

// holding is the memory of one body.
type holding struct {
	*bodies
	bytes   int64
	isLarge bool
}

// grow takes more memory, and tells whether there is some.
func (h *holding) grow(to int64) bool {
	if to > smallBody+1 && !h.isLarge {
		select {
		case h.large <- struct{}{}:
			h.isLarge = true
		default:
			return false
		}
	}
	if h.isLarge {
		return true // its place is for the largest body
	}
	more := to - h.bytes
	if h.small.Add(more) > smallBudget {
		h.small.Add(-more)
		return false
	}
	h.bytes = to
	return true
}

func (h *holding) release() {
	h.small.Add(-h.bytes)
	h.bytes = 0
	if h.isLarge {
		h.isLarge = false
		<-h.large
	}
}
