package controllers

import (
	"slices"
	"strings"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// historyEntry finds the image of a key, or nil.
func historyEntry(fn *functionv1.Function, key string) *functionv1.HistoryEntry {
	for i := range fn.Status.History {
		if fn.Status.History[i].Key == key {
			return &fn.Status.History[i]
		}
	}
	return nil
}

// servingEntry is the entry of the image that runs, or nil.
func servingEntry(fn *functionv1.Function) *functionv1.HistoryEntry {
	return imageEntry(fn, fn.Status.Image)
}

// imageEntry is the newest entry of an image by digest, or nil.
func imageEntry(fn *functionv1.Function, image string) *functionv1.HistoryEntry {
	_, digest, byDigest := strings.Cut(image, "@")
	for i := range fn.Status.History {
		if byDigest && fn.Status.History[i].Digest == digest {
			return &fn.Status.History[i]
		}
	}
	return nil
}

// pinnedEntry finds what spec.pin names: a key, digest, tree or commit, in full
// or its first seven digits or more.
func pinnedEntry(fn *functionv1.Function, pin string) *functionv1.HistoryEntry {
	if pin = strings.TrimPrefix(pin, "sha256:"); len(pin) < 7 {
		return nil
	}
	for i := range fn.Status.History {
		entry := &fn.Status.History[i]
		digest := strings.TrimPrefix(entry.Digest, "sha256:")
		for _, name := range []string{entry.Commit, entry.Tree, entry.Key, digest} {
			if strings.HasPrefix(name, pin) {
				return entry
			}
		}
	}
	return nil
}

// remember puts an entry first, and drops the oldest beyond the limit, but
// never the one that serves.
func remember(fn *functionv1.Function, entry functionv1.HistoryEntry) {
	serving := servingEntry(fn)
	if serving != nil {
		kept := *serving
		serving = &kept
	}
	history := slices.Insert(slices.Clone(fn.Status.History), 0, entry)
	if limit := int(*fn.Spec.RevisionHistoryLimit); len(history) > limit {
		history = history[:limit]
		if serving != nil && !slices.ContainsFunc(history, func(e functionv1.HistoryEntry) bool { return e.Key == serving.Key }) {
			history = append(history, *serving)
		}
	}
	fn.Status.History = history
}
