package gitsource

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// userAgent begins as git's does: some forges answer a browser's page to everything else.
const userAgent = "git/2.40.0 (gitfn)"

// ref is a line of a refs answer.
type ref struct {
	name   string
	id     string
	peeled string // what an annotated tag leads to
	target string // what a symbolic ref names
}

// commit is what the ref leads to, through an annotated tag.
func (r ref) commit() string {
	if r.peeled != "" {
		return r.peeled
	}
	return r.id
}

// wanted lets only those refs through to visit that one of the names means: a name that ends in a slash stands for
// all refs below it, any other for itself. A ref may come twice, and then what came last counts: a server without
// protocol v2 says in a second line where an annotated tag leads.
func wanted(names []string, visit func(ref)) func(ref) {
	exact := make(map[string]bool, len(names))
	var prefixes []string
	for _, name := range names {
		if strings.HasSuffix(name, "/") {
			prefixes = append(prefixes, name)
		}
		exact[name] = true
	}
	return func(r ref) {
		below := func(prefix string) bool { return strings.HasPrefix(r.name, prefix) }
		if exact[r.name] || slices.ContainsFunc(prefixes, below) {
			visit(r)
		}
	}
}

// abilities is what a server said about itself.
type abilities struct {
	version int
	words   map[string]string // capability to value, space separated
}

func (a abilities) has(name string) bool { _, ok := a.words[name]; return ok }

// feature tells whether the value of a capability names a word.
func (a abilities) feature(name, word string) bool {
	return slices.Contains(strings.Fields(a.words[name]), word)
}

// filters tells whether blobs can be left out at first and asked for by id afterwards.
func (a abilities) filters() bool {
	if a.version == 2 {
		return a.feature("fetch", "filter")
	}
	return a.has("filter") && a.has("allow-any-sha1-in-want")
}

// shallow tells whether history can be left out.
func (a abilities) shallow() bool {
	if a.version == 2 {
		return a.feature("fetch", "shallow")
	}
	return a.has("shallow")
}

// readAdvertisement reads the first answer of a server. One without protocol v2 lists its refs there: they
// go to visit, one by one.
func readAdvertisement(r io.Reader, maxRefs int, visit func(ref)) (abilities, error) {
	packets := &packetReader{r: r}
	able := abilities{words: map[string]string{}}
	kind, line, err := packets.line()
	if err == nil && strings.HasPrefix(line, "# service=") {
		if kind, line, err = packets.line(); err == nil && kind == packetFlush {
			kind, line, err = packets.line()
		}
	}
	if err == nil && line == "version 1" {
		kind, line, err = packets.line()
	}
	switch {
	case err != nil:
		return able, broken(err)
	case line == "version 2":
		able.version = 2
		err = readCapabilities(packets, able)
	default:
		err = readRefsV0(packets, kind, line, able, maxRefs, visit)
	}
	if format, ok := able.words["object-format"]; ok && format != "sha1" && err == nil {
		err = errorf(ErrUnsupported, "read repository: object format %q is not supported yet, only sha1", oneLine(format, 20))
	}
	return able, err
}

func readCapabilities(packets *packetReader, able abilities) error {
	for n := 0; n < 1000; n++ {
		kind, line, err := packets.line()
		if err != nil {
			return broken(err)
		}
		if kind == packetFlush {
			return nil
		}
		name, value, _ := strings.Cut(line, "=")
		able.words[name] = value
	}
	return fmt.Errorf("read capabilities: %w", errProtocol)
}

// readRefsV0 reads lines of "id name", the first with capabilities behind a zero byte. The line after an
// annotated tag names what it leads to.
func readRefsV0(packets *packetReader, kind packetKind, line string, able abilities, maxRefs int, visit func(ref)) error {
	names, capabilities, _ := strings.Cut(line, "\x00")
	for _, word := range strings.Fields(capabilities) {
		name, value, _ := strings.Cut(word, "=")
		able.words[name] = strings.TrimSpace(able.words[name] + " " + value)
	}
	line = names
	var last ref
	for n := 0; kind == packetData; n++ {
		if n > maxRefs {
			return errorf(ErrTooLarge, "read refs: there are more than %d", maxRefs)
		}
		id, name, ok := strings.Cut(line, " ")
		if id != "shallow" { // such lines come last, from a repository that is not whole itself
			if !ok || !plumbing.IsHash(id) || name == "" {
				return fmt.Errorf("read refs: %w", errProtocol)
			}
			if of, peeled := strings.CutSuffix(name, "^{}"); !peeled {
				last = ref{name: name, id: id, target: headTarget(able, name)}
				visit(last)
			} else if of == last.name && of != "" {
				last.peeled = id
				visit(last)
			}
		}
		var err error
		if kind, line, err = packets.line(); err != nil {
			return broken(err)
		}
	}
	return nil
}

func headTarget(able abilities, name string) string {
	for _, word := range strings.Fields(able.words["symref"]) {
		if from, to, _ := strings.Cut(word, ":"); from == name {
			return to
		}
	}
	return ""
}

// readRefs reads an answer to ls-refs: lines of "id name", with attributes behind.
func readRefs(r io.Reader, maxRefs int, visit func(ref)) error {
	packets := &packetReader{r: r}
	for n := 0; ; n++ {
		kind, line, err := packets.line()
		switch {
		case err != nil:
			return broken(err)
		case kind == packetFlush:
			return nil
		case kind != packetData:
			return fmt.Errorf("read refs: %w", errProtocol)
		case n >= maxRefs:
			return errorf(ErrTooLarge, "read refs: there are more than %d", maxRefs)
		}
		words := strings.Split(line, " ")
		if len(words) < 2 || !plumbing.IsHash(words[0]) && words[0] != "unborn" {
			return fmt.Errorf("read refs: %w", errProtocol)
		}
		if words[0] == "unborn" {
			continue
		}
		found := ref{id: words[0], name: words[1]}
		for _, word := range words[2:] {
			if value, ok := strings.CutPrefix(word, "peeled:"); ok && plumbing.IsHash(value) {
				found.peeled = value
			}
			if value, ok := strings.CutPrefix(word, "symref-target:"); ok {
				found.target = value
			}
		}
		visit(found)
	}
}

// broken makes an end where more had to come an error that says so.
func broken(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// request writes packets into memory: a request is small, and may have to be sent again after a redirect.
type request struct {
	bytes.Buffer
}

func (r *request) linef(format string, args ...any) { r.wordf(format+"\n", args...) }

// wordf is linef for what is no line of text.
func (r *request) wordf(format string, args ...any) {
	_ = pktline.NewEncoder(&r.Buffer).Encodef(format, args...) // a buffer does not fail
}

func (r *request) flush()     { _ = pktline.NewEncoder(&r.Buffer).Flush() }
func (r *request) delimiter() { r.WriteString("0001") }

// command begins a request of protocol v2.
func (r *request) command(name string, able abilities) {
	r.linef("command=%s", name)
	if able.has("agent") {
		r.linef("agent=%s", strings.ReplaceAll(userAgent, " ", "-"))
	}
	if able.has("object-format") {
		r.linef("object-format=sha1")
	}
	r.delimiter()
}

// lsRefs asks for the refs that begin with one of the prefixes.
func lsRefs(able abilities, prefixes []string) *request {
	r := &request{}
	r.command("ls-refs", able)
	r.linef("peel")
	r.linef("symrefs")
	for _, prefix := range prefixes {
		r.linef("ref-prefix %s", prefix)
	}
	r.flush()
	return r
}

// want is what a pack is to hold.
type want struct {
	ids      []string
	haves    []string // commits that are there, as shallow as everything here; only protocol v2 is told
	shallow  bool     // the wanted are commits: leave out their history
	blobless bool
}

// packRequest asks for a pack.
func packRequest(able abilities, w want) *request {
	if able.version == 2 {
		return packRequestV2(able, w)
	}
	return packRequestV0(able, w)
}

func packRequestV2(able abilities, w want) *request {
	r := &request{}
	r.command("fetch", able)
	r.linef("no-progress")
	r.linef("ofs-delta")
	if len(w.haves) > 0 {
		r.linef("thin-pack") // without it git sends every tree again to a shallow repository
	}
	for _, id := range w.ids {
		r.linef("want %s", id)
	}
	for _, id := range w.haves {
		r.linef("shallow %s", id)
		r.linef("have %s", id)
	}
	if w.shallow && able.shallow() {
		r.linef("deepen 1")
	}
	if w.blobless {
		r.linef("filter blob:none")
	}
	r.linef("done")
	r.flush()
	return r
}

func packRequestV0(able abilities, w want) *request {
	words := []string{"agent=" + strings.ReplaceAll(userAgent, " ", "-")}
	for _, word := range []string{"ofs-delta", "side-band-64k", "no-progress", "shallow", "filter"} {
		if able.has(word) {
			words = append(words, word)
		}
	}
	r := &request{}
	for i, id := range w.ids {
		if i == 0 {
			id += " " + strings.Join(words, " ")
		}
		r.linef("want %s", id)
	}
	if w.shallow && able.shallow() {
		r.linef("deepen 1")
	}
	if w.blobless {
		r.linef("filter blob:none")
	}
	r.flush()
	r.linef("done")
	return r
}

// packReader skips what a server says before the pack, and returns the pack.
func packReader(body io.Reader, able abilities) (io.Reader, error) {
	packets := &packetReader{r: body}
	for n := 0; n < 10_000; n++ {
		kind, line, err := packets.line()
		switch {
		case err != nil:
			return nil, broken(err)
		case able.version == 2 && line == "packfile":
			return &bandReader{packets: packets}, nil
		case able.version == 0 && kind == packetData && (line == "NAK" || strings.HasPrefix(line, "ACK ")):
			if able.has("side-band-64k") {
				return &bandReader{packets: packets}, nil
			}
			return body, nil
		}
	}
	return nil, fmt.Errorf("read pack: %w", errProtocol)
}

// refused tells whether a server's words mean that it does not have, or does not give, an object.
func refused(err error) bool {
	var said *serverError
	if !errors.As(err, &said) {
		return false
	}
	text := strings.ToLower(said.text)
	for _, words := range []string{"not our ref", "no such", "not found", "unadvertised", "not valid", "missing", "does not exist", "bad object", "unknown object"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
