package cache

import (
	"path"
	"strings"

	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/runtimes"
)

// foreignPython are lock files that pip does not read, and who writes them.
var foreignPython = []struct{ lock, manager, export string }{
	{"poetry.lock", "Poetry", "poetry export -o requirements.txt"},
	{"uv.lock", "uv", "uv export -o requirements.txt"},
	{"Pipfile.lock", "Pipenv", "pipenv requirements --hash > requirements.txt"},
	{"pdm.lock", "PDM", "pdm export -o requirements.txt"},
}

// selectPython finds what pip gets to see: requirements.txt, the files that it
// includes, and the whole tree where it names a directory or an archive of it.
func selectPython(runtime runtimes.Runtime, tree *gitsource.Tree) (Inputs, error) {
	p := requirements{selection: selection{tree: tree, chosen: map[string]bool{}, files: map[string]gitsource.File{}}}
	for _, file := range tree.Files {
		p.files[file.Path] = file
	}
	if _, found := p.files[runtime.Manifest]; !found {
		for _, other := range foreignPython {
			if _, found := p.files[other.lock]; found {
				return Inputs{}, errorf(ErrForeignLock, "%s is of %s, but dependencies are installed by pip; add a %s (%s) or remove %s",
					other.lock, other.manager, runtime.Manifest, other.export, other.lock)
			}
		}
		return Inputs{}, nil
	}
	if err := p.file(runtime.Manifest, false); err != nil || !p.wanted {
		return Inputs{}, err
	}
	var files []gitsource.File
	for _, file := range tree.Files {
		if (p.whole || p.chosen[file.Path]) && !inModules(runtime.Modules, file.Path) {
			files = append(files, file)
		}
	}
	return Inputs{Files: files, Locked: p.hashed, Whole: p.whole}, nil
}

// requirements is what was read of requirements.txt and the files it includes.
type requirements struct {
	selection
	// wanted is true if there is something to install, hashed if pip checks
	// every package against hashes: it does for all as soon as one has some.
	wanted, hashed bool
}

// file reads one file in pip's format. Of constraints nothing is installed.
func (p *requirements) file(name string, constraints bool) error {
	if p.chosen[name] {
		return nil
	}
	content, err := p.read(name)
	if err != nil {
		return err
	}
	p.choose(name)
	for _, line := range requirementLines(string(content)) {
		if err := p.line(name, line, constraints); err != nil {
			return err
		}
	}
	return nil
}

// versionControl begin the URLs of what pip fetches by other programs.
var versionControl = []string{"git+", "hg+", "svn+", "bzr+"}

func (p *requirements) line(in, line string, constraints bool) error {
	if at, found := option(line, "-r", "--requirement"); found {
		return p.include(in, at, constraints)
	}
	if at, found := option(line, "-c", "--constraint"); found {
		return p.include(in, at, true)
	}
	what, editable := option(line, "-e", "--editable")
	if !editable && strings.HasPrefix(line, "-") {
		p.hashed = p.hashed || strings.HasPrefix(line, "--require-hashes")
		if at, found := option(line, "-f", "--find-links"); found && !strings.Contains(at, "://") {
			p.whole = true
		}
		return nil
	}
	if !editable {
		what = line
	}
	p.hashed = p.hashed || strings.Contains(line, "--hash")
	for _, begin := range versionControl {
		if strings.HasPrefix(what, begin) || strings.Contains(what, " "+begin) || strings.Contains(what, "@"+begin) {
			return errorf(ErrManifest, "%s takes %s from version control, and the runtime's image has none; publish it as a package",
				in, redact(what))
		}
	}
	p.wanted = p.wanted || !constraints
	if editable || local(what) {
		p.whole = true // what a project's own build reads cannot be told
	}
	return nil
}

// include reads a file that another one names, by its path beside that.
func (p *requirements) include(in, at string, constraints bool) error {
	if strings.Contains(at, "://") {
		return errorf(ErrManifest, "%s includes %s; only files of the source can be included", in, redact(at))
	}
	name := path.Join(path.Dir(in), at)
	if path.IsAbs(at) || name == ".." || strings.HasPrefix(name, "../") {
		return errorf(ErrManifest, "%s includes %s, which is outside of the source's directory", in, at)
	}
	if _, found := p.files[name]; !found {
		return errorf(ErrManifest, "%s includes %s, which is not in the source", in, at)
	}
	return p.file(name, constraints)
}

// requirementLines gives the lines with a meaning: joined where a backslash ends
// them, without comments.
func requirementLines(text string) []string {
	var lines []string
	for line := range strings.Lines(strings.NewReplacer("\\\r\n", " ", "\\\n", " ").Replace(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, comment := range []string{" #", "\t#"} {
			line, _, _ = strings.Cut(line, comment)
		}
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// option gives the value of an option that begins a line: "-r x", "-rx",
// "--requirement x" or "--requirement=x".
func option(line, short, long string) (string, bool) {
	value, found := strings.CutPrefix(line, long)
	if found && value != "" && !strings.ContainsAny(value[:1], " \t=") {
		return "", false // another option that begins so
	}
	if !found {
		if value, found = strings.CutPrefix(line, short); !found || strings.HasPrefix(line, "--") {
			return "", false
		}
	}
	return strings.Trim(strings.TrimLeft(value, "= \t"), `"' `+"\t"), true
}

// local reports whether a requirement is a file or a directory of the source.
func local(what string) bool {
	if _, at, found := strings.Cut(what, " @ "); found {
		what = strings.TrimSpace(at)
	}
	what, _, _ = strings.Cut(what, " ")
	if strings.HasPrefix(what, "file:") {
		return true
	}
	if strings.Contains(what, "://") {
		return false
	}
	return strings.HasPrefix(what, ".") || strings.Contains(what, "/") || strings.HasSuffix(what, ".whl") || strings.HasSuffix(what, ".tar.gz")
}

// redact takes user and password out of a URL.
func redact(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text
	}
	if host, after, _ := strings.Cut(rest, "/"); strings.Contains(host, "@") {
		rest = host[strings.LastIndex(host, "@")+1:] + "/" + after
	}
	return scheme + "://" + rest
}
