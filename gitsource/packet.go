package gitsource

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// packetKind tells data from the marks between data.
type packetKind int

const (
	packetData packetKind = iota
	packetFlush
	packetDelimiter
	packetEnd
)

// errProtocol is inside every error about an answer that is not what Git's protocol says.
var errProtocol = errors.New("answer is not Git's protocol")

// serverError is what a server says in an ERR packet or on the error band, in its own words: redact and shorten
// them before anybody reads them.
type serverError struct{ text string }

func (e *serverError) Error() string { return "server says: " + e.text }

// packetReader reads packets. It exists because go-git's scanner takes the delimiter of protocol v2 for an error.
type packetReader struct {
	r      io.Reader
	buffer []byte // grows with the packets: those of a poll are small
}

// next returns the payload of a packet, valid until the next call. The end of the input is io.EOF only
// between packets.
func (p *packetReader) next() (packetKind, []byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(p.r, size[:]); err != nil {
		return 0, nil, err
	}
	var length [2]byte
	if _, err := hex.Decode(length[:], size[:]); err != nil {
		return 0, nil, fmt.Errorf("read packet length: %w", errProtocol)
	}
	switch n := int(length[0])<<8 | int(length[1]); {
	case n < 3:
		return packetFlush + packetKind(n), nil, nil
	case n < 4 || n-4 > pktline.OversizePayloadMax:
		return 0, nil, fmt.Errorf("read packet length: %w", errProtocol)
	default:
		if n-4 > len(p.buffer) {
			p.buffer = make([]byte, min(max(n-4, 2*len(p.buffer)), pktline.OversizePayloadMax))
		}
		return p.payload(p.buffer[:n-4])
	}
}

func (p *packetReader) payload(data []byte) (packetKind, []byte, error) {
	if _, err := io.ReadFull(p.r, data); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	if text, found := bytes.CutPrefix(data, []byte("ERR ")); found {
		return 0, nil, &serverError{text: string(text)}
	}
	return packetData, data, nil
}

// line is next for packets of text, without the line's end.
func (p *packetReader) line() (packetKind, string, error) {
	kind, data, err := p.next()
	return kind, strings.TrimSuffix(string(data), "\n"), err
}

// bandReader reads the pack out of the side band that it is sent on.
type bandReader struct {
	packets *packetReader
	pending []byte
	done    bool
}

// Read returns data of the pack, or what the server says on the error band.
func (b *bandReader) Read(p []byte) (int, error) {
	for len(b.pending) == 0 {
		if b.done {
			return 0, io.EOF
		}
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.pending)
	b.pending = b.pending[n:]
	return n, nil
}

func (b *bandReader) fill() error {
	kind, data, err := b.packets.next()
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case kind != packetData:
		b.done = true
		return nil
	case len(data) == 0:
		return fmt.Errorf("read band: %w", errProtocol)
	}
	switch data[0] {
	case 1:
		b.pending = data[1:]
	case 2: // progress
	case 3:
		return &serverError{text: string(data[1:])}
	default:
		return fmt.Errorf("read band %d: %w", data[0], errProtocol)
	}
	return nil
}

// capReader fails with ErrTooLarge instead of giving more than its limit.
type capReader struct {
	r    io.Reader
	left int64
	what string
}

func (c *capReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, errorf(ErrTooLarge, "%s is larger than its limit", c.what)
	}
	return n, err
}

// oneLine makes a server's words fit for a status: one line of printable characters, at most max of them.
func oneLine(text string, max int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "�")), " ")
	runes := []rune(strings.TrimFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }))
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = '�'
		}
	}
	if len(runes) > max {
		runes = append(runes[:max-1], '…')
	}
	return string(runes)
}
