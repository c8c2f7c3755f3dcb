package cache

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/runtimes"
)

var python = runtimes.Default()["python313"]

func TestSelectPython(t *testing.T) {
	const hash = " --hash=sha256:aa"
	rows := []struct {
		name  string
		files map[string]string
		want  string // the paths
		err   error
		says  string
		whole bool
		free  bool
	}{
		{name: "no requirements.txt: nothing to install", files: map[string]string{"handler.py": "1"}},
		{name: "comments and options alone: nothing to install", files: map[string]string{"requirements.txt": "# flask\n\n--index-url https://pypi.example/simple\n-c c.txt\n", "c.txt": "flask==3"}},
		{name: "versions without hashes float, even exact ones", files: map[string]string{"requirements.txt": "flask==3.0\n", "handler.py": "1"}, want: "requirements.txt", free: true},
		{name: "with hashes nothing floats", files: map[string]string{"requirements.txt": "flask==3.0 \\\n   " + hash + "\n"}, want: "requirements.txt"},
		{name: "hashes can be demanded", files: map[string]string{"requirements.txt": "--require-hashes\nflask==3.0"}, want: "requirements.txt"},
		{name: "included files and constraints are inputs, however deep, by their paths",
			files: map[string]string{"requirements.txt": "-r req/a.txt\n", "req/a.txt": "-rb.txt # why\n--constraint=../c.txt\n", "req/b.txt": "-r a.txt\nflask", "c.txt": "flask<4", "d.txt": "x"},
			want:  "c.txt req/a.txt req/b.txt requirements.txt", free: true},
		{name: "a directory of the source: all is input", files: map[string]string{"requirements.txt": "./lib/mine", "lib/mine/pyproject.toml": "1", "handler.py": "1"},
			want: "handler.py lib/mine/pyproject.toml requirements.txt", whole: true, free: true},
		{name: "an editable directory: all is input", files: map[string]string{"requirements.txt": "-e mine", "mine/setup.py": "1"}, want: "mine/setup.py requirements.txt", whole: true, free: true},
		{name: "a wheel of the source: all is input", files: map[string]string{"requirements.txt": "mine @ file:wheels/mine.whl", "wheels/mine.whl": "1"}, want: "requirements.txt wheels/mine.whl", whole: true, free: true},
		{name: "a folder of links: all is input", files: map[string]string{"requirements.txt": "--find-links wheels\nmine", "wheels/mine.whl": "1"}, want: "requirements.txt wheels/mine.whl", whole: true, free: true},
		{name: "modules that the source brings are never input", files: map[string]string{"requirements.txt": "./mine", "mine/setup.py": "1", "lib/python3.13/site-packages/x.py": "1"},
			want: "mine/setup.py requirements.txt", whole: true, free: true},
		{name: "an archive elsewhere is no file of the source", files: map[string]string{"requirements.txt": "mine @ https://e.example/mine.whl", "handler.py": "1"}, want: "requirements.txt", free: true},
		{name: "Git is refused, without its password", files: map[string]string{"requirements.txt": "git+https://me:hunter22@git.example/a.git"}, err: ErrManifest,
			says: "requirements.txt takes git+https://git.example/a.git from version control, and the runtime's image has none; publish it as a package"},
		{name: "Git by name is refused", files: map[string]string{"requirements.txt": "a @ git+ssh://git@git.example/a.git"}, err: ErrManifest},
		{name: "editable Git is refused", files: map[string]string{"requirements.txt": "-e git+https://git.example/a.git#egg=a"}, err: ErrManifest},
		{name: "a file that is not there is refused", files: map[string]string{"requirements.txt": "-r more.txt"}, err: ErrManifest, says: "requirements.txt includes more.txt, which is not in the source"},
		{name: "a file outside is refused", files: map[string]string{"requirements.txt": "-r ../more.txt"}, err: ErrManifest, says: "requirements.txt includes ../more.txt, which is outside of the source's directory"},
		{name: "a file elsewhere is refused", files: map[string]string{"requirements.txt": "-r https://e.example/more.txt"}, err: ErrManifest},
		{name: "a lock file of Poetry alone is refused", files: map[string]string{"poetry.lock": ""}, err: ErrForeignLock},
		{name: "a lock file of uv beside requirements.txt is left alone", files: map[string]string{"uv.lock": "", "requirements.txt": "flask"}, want: "requirements.txt", free: true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			inputs, err := Select(python, treeOf(t, row.files))
			if row.err != nil {
				g.Expect(err).To(MatchError(row.err))
				g.Expect(err.Error()).To(ContainSubstring(row.says))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			var paths []string
			for _, file := range inputs.Files {
				paths = append(paths, file.Path)
			}
			g.Expect(strings.Join(paths, " ")).To(Equal(row.want))
			g.Expect(inputs.Whole).To(Equal(row.whole))
			g.Expect(inputs.Locked).To(Equal(!row.free && row.want != ""))
		})
	}
}

func TestKeyOfPython(t *testing.T) {
	base := map[string]string{"requirements.txt": "-r more.txt\n-c c.txt\nflask", "more.txt": "x", "c.txt": "x<2", "handler.py": "1"}
	keyOf := func(t *testing.T, files map[string]string) string {
		g := NewWithT(t)
		tree := treeOf(t, files)
		inputs, err := Select(python, tree)
		g.Expect(err).NotTo(HaveOccurred())
		key, err := Key(Facts{}, inputs, tree)
		g.Expect(err).NotTo(HaveOccurred())
		return key
	}
	first := keyOf(t, base)
	for file, changes := range map[string]bool{"requirements.txt": true, "more.txt": true, "c.txt": true, "handler.py": false} {
		t.Run(file, func(t *testing.T) {
			edited := map[string]string{}
			for name, text := range base {
				edited[name] = text
			}
			edited[file] += "\n# edited\n"
			NewWithT(t).Expect(keyOf(t, edited) != first).To(Equal(changes))
		})
	}
}
