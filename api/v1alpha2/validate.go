package v1alpha2

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Default fills in what an absent field means.
func Default(f *Function) {
	if f.Spec.Replicas == nil {
		f.Spec.Replicas = new(int32)
		*f.Spec.Replicas = 1
	}
	if f.Spec.RevisionHistoryLimit == nil {
		f.Spec.RevisionHistoryLimit = new(int32)
		*f.Spec.RevisionHistoryLimit = 10
	}
}

// Validate returns every fault of the spec that a schema cannot express, each
// with the path of its field and the cure. It knows nothing of runtimes or Git
// URLs: the controllers check those against their configuration.
func Validate(f *Function) field.ErrorList {
	spec := field.NewPath("spec")
	faults := validateName(f.Name)
	faults = append(faults, validateEnv(spec.Child("env"), f.Spec.Env)...)
	faults = append(faults, validateSecretMounts(spec.Child("secretMounts"), f.Spec.SecretMounts)...)
	if inline := f.Spec.Source.Inline; inline != nil {
		faults = append(faults, validateInline(spec.Child("source", "inline"), f.Spec.Runtime, inline)...)
	}
	faults = append(faults, validateLabels(spec.Child("labels"), f.Spec.Labels)...)
	if rc := f.Spec.ResourceConfiguration; rc != nil {
		faults = append(faults, validateResources(spec.Child("resourceConfiguration", "function"), rc.Function)...)
		faults = append(faults, validateResources(spec.Child("resourceConfiguration", "build"), rc.Build)...)
	}
	return faults
}

// validateName wants the name of a Service, because the Function's Service has it.
func validateName(name string) field.ErrorList {
	var faults field.ErrorList
	for _, message := range validation.IsDNS1035Label(name) {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "name"), name, "the Function's Service has this name: "+message))
	}
	return faults
}

func validateEnv(path *field.Path, env []corev1.EnvVar) field.ErrorList {
	var faults field.ErrorList
	for i, variable := range env {
		for _, message := range validation.IsEnvVarName(variable.Name) {
			faults = append(faults, field.Invalid(path.Index(i).Child("name"), variable.Name, message))
		}
	}
	return faults
}

func validateSecretMounts(path *field.Path, mounts []SecretMount) field.ErrorList {
	var faults field.ErrorList
	seen := map[string]bool{}
	for i, mount := range mounts {
		at := path.Index(i).Child("secretName")
		for _, message := range validation.IsDNS1123Subdomain(mount.SecretName) {
			faults = append(faults, field.Invalid(at, mount.SecretName, message))
		}
		if seen[mount.SecretName] {
			faults = append(faults, field.Duplicate(at, mount.SecretName))
		}
		seen[mount.SecretName] = true
	}
	return faults
}

func validateInline(path *field.Path, runtime string, inline *Inline) field.ErrorList {
	var faults field.ErrorList
	if strings.TrimSpace(inline.Source) == "" {
		faults = append(faults, field.Required(path.Child("source"), "the handler's code is missing"))
	}
	dependencies := strings.TrimSpace(inline.Dependencies)
	if strings.HasPrefix(runtime, "nodejs") && dependencies != "" {
		var manifest map[string]any
		err := json.Unmarshal([]byte(dependencies), &manifest)
		if err == nil && manifest == nil {
			err = errors.New("it is null")
		}
		if err != nil {
			faults = append(faults, field.Invalid(path.Child("dependencies"), field.OmitValueType{}, "must be the JSON object of a package.json: "+err.Error()))
		}
	}
	return faults
}

func validateLabels(path *field.Path, labels map[string]string) field.ErrorList {
	var faults field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		for _, message := range validation.IsQualifiedName(key) {
			faults = append(faults, field.Invalid(path, key, message))
		}
		for _, message := range validation.IsValidLabelValue(value) {
			faults = append(faults, field.Invalid(path.Key(key), value, message))
		}
	}
	return faults
}

func validateResources(path *field.Path, requirements *ResourceRequirements) field.ErrorList {
	if requirements == nil || requirements.Resources == nil {
		return nil
	}
	var faults field.ErrorList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, requested := requirements.Resources.Requests[name]
		limit, limited := requirements.Resources.Limits[name]
		if requested && limited && request.Cmp(limit) > 0 {
			faults = append(faults, field.Invalid(path.Child("resources", "requests", string(name)), request.String(), "must be at most the limit of "+limit.String()))
		}
	}
	return faults
}
