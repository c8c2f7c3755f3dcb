package rollout

import "maps"

// Labels of the children, as existing tools select them.
const (
	LabelFunctionName = "serverless.kyma-project.io/function-name"
	LabelManagedBy    = "serverless.kyma-project.io/managed-by"
	LabelUUID         = "serverless.kyma-project.io/uuid"
	LabelResource     = "serverless.kyma-project.io/resource"

	labelAppName = "app.kubernetes.io/name"
)

// InternalLabels are the three labels that tie every child, whatever its kind, to its Function.
func InternalLabels(name, uid string) map[string]string {
	return map[string]string{
		LabelFunctionName: name,
		LabelManagedBy:    "function-controller",
		LabelUUID:         uid,
	}
}

// Labels are those of the children's metadata: the Function's own, under the internal ones.
func Labels(s Settings) map[string]string {
	return overlaid(s.Labels, InternalLabels(s.Name, s.UID))
}

// Selector is how the Deployment and the Service find the Pods: four labels, and no others.
func Selector(s Settings) map[string]string {
	return overlaid(InternalLabels(s.Name, s.UID), map[string]string{LabelResource: "deployment"})
}

func podLabels(s Settings) map[string]string {
	return overlaid(s.PodLabels, Selector(s), map[string]string{labelAppName: s.Name})
}

// overlaid is a new map in which later maps win.
func overlaid(layers ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, layer := range layers {
		maps.Copy(sum, layer)
	}
	return sum
}
