package gitsource

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// stream is a remote that holds one conversation per request: the other end says what it can do, is asked for one
// thing, answers, and is told that this was all. SSH and git:// are such. It is safe for concurrent use.
type stream struct {
	endpoint
	open func(ctx context.Context) (conversation, error)
}

// conversation is one run of git-upload-pack at the other end. The end of the context it was opened with breaks it
// off, wherever it stands.
type conversation interface {
	io.ReadWriter
	// close ends it. whole says that everything was said that was to be said, so that what carried it may carry another.
	close(whole bool) ending
}

// ending is what is known of a conversation when it is over.
type ending struct {
	said  string // what the other end said beside it
	stale bool   // it never began, because what was to carry it was gone already
}

// refs asks for refs by name, and hands those that are there to visit.
func (s *stream) refs(ctx context.Context, names []string, visit func(ref)) error {
	visit = wanted(names, visit)
	return s.talk(ctx, visit, func(able abilities, answer *capReader, say io.Writer) error {
		if able.version != 2 {
			return nil // they were visited: it lists them unasked
		}
		if _, err := say.Write(lsRefs(able, names).Bytes()); err != nil {
			return fmt.Errorf("send request: %w", err)
		}
		return readRefs(answer, s.limits.Refs, visit)
	})
}

// abilities asks what the server can do, once.
func (s *stream) abilities(ctx context.Context) (able abilities, err error) {
	if able, ok := s.known(); ok {
		return able, nil
	}
	err = s.talk(ctx, func(ref) {}, func(said abilities, _ *capReader, _ io.Writer) error {
		able = said
		return nil
	})
	return able, err
}

// pack asks for a pack and hands it to store while it arrives.
func (s *stream) pack(ctx context.Context, w want, store func(io.Reader) error) error {
	return s.talk(ctx, func(ref) {}, func(able abilities, answer *capReader, say io.Writer) error {
		answer.left = s.packBytes()
		if _, err := say.Write(packRequest(able, w).Bytes()); err != nil {
			return fmt.Errorf("send request: %w", err)
		}
		pack, err := packReader(answer, able)
		if err == nil {
			err = store(pack)
		}
		return err
	})
}

// exchange is one request and its answer, after the other end said what it can do.
type exchange func(able abilities, answer *capReader, say io.Writer) error

// talk holds a conversation, and another if what was to carry it was gone.
func (s *stream) talk(ctx context.Context, visit func(ref), then exchange) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errTimeout)
	defer cancel()
	for {
		stale, err := s.tryTalk(ctx, visit, then)
		if stale && ctx.Err() == nil {
			continue
		}
		if err != nil {
			s.forget()
			err = timedOut(ctx, err)
		}
		return s.explain(err)
	}
}

func (s *stream) tryTalk(ctx context.Context, visit func(ref), then exchange) (stale bool, err error) {
	c, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	answer := &capReader{r: bufio.NewReaderSize(c, 32<<10), left: refsBytes, what: "answer"}
	able, err := readAdvertisement(answer, s.limits.Refs, visit)
	if err != nil {
		end := c.close(false)
		return end.stale, s.turnedAway(err, end)
	}
	s.learn(able)
	if err := then(able, answer, c); err != nil {
		return false, lastWords(err, c.close(false))
	}
	_, _ = io.WriteString(c, "0000") // one that has left already knows that this was all
	c.close(true)
	return false, nil
}

// lastWords prefers what the other end said to the bare fact that it went away.
func lastWords(err error, end ending) error {
	if end.said != "" && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)) {
		return &serverError{text: end.said}
	}
	return err
}

// turnedAway makes an error of a conversation that did not begin. Servers say why in words only, each in its own.
func (s *stream) turnedAway(err error, end ending) error {
	text := end.said
	var said *serverError
	if errors.As(err, &said) {
		text = oneLine(said.text, saidMost)
	}
	lower := strings.ToLower(text)
	has := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(lower, word) {
				return true
			}
		}
		return false
	}
	var kind *kindError
	switch {
	case text == "" || errors.As(err, &kind):
		return err
	case has("command not found", "unrecognized command", "unknown command", "not a git command", "shell access", "account is currently not available"):
		return errorf(ErrUnsupported, "the server does not run git-upload-pack: %s", text)
	case has("not found", "not exist", "not be found", "cannot find", "no such", "not exported", "not appear to be a git repository"):
		return errorf(ErrRepositoryNotFound, "no such repository, or it is not shown to this user: %s", text)
	case has("denied", "not authorized", "unauthorized", "not allowed", "forbidden", "permission", "authentication", " sso"):
		return errorf(ErrAuth, "the user may not read the repository: %s", text)
	case errors.Is(err, errProtocol):
		return err
	}
	return errors.New("server says: " + text)
}

const (
	// saidMost is how much of a server's words is repeated.
	saidMost = 300
	// saidBytes is how much of them is kept until it is clear what matters.
	saidBytes = 8 << 10
)

// listener keeps the beginning of what is said beside a conversation. Past a megabyte it stops listening: who goes on
// has to wait, and runs into the timeout.
type listener struct {
	kept  []byte
	heard int
}

func (l *listener) Write(p []byte) (int, error) {
	if l.heard += len(p); l.heard > 1<<20 {
		return 0, errors.New("too many words")
	}
	l.kept = append(l.kept, p[:min(len(p), saidBytes-len(l.kept))]...)
	return len(p), nil
}

// words is what was said in one line, without the frames that forges put around it.
func (l *listener) words() string {
	var words []string
	for line := range strings.Lines(string(l.kept)) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "remote:"))
		if strings.Trim(line, "=-*#") != "" {
			words = append(words, line)
		}
	}
	return oneLine(strings.Join(words, " "), saidMost)
}
