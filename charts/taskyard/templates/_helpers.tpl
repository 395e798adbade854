{{/* The name of every object of this release: "taskyard", or "<release>-taskyard". */}}
{{- define "taskyard.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "taskyard.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "taskyard.fullname" .) -}}
{{- end -}}

{{/* Not the release's name: two releases in one namespace would otherwise act at the same time. */}}
{{- define "taskyard.leaseName" -}}
taskyard
{{- end -}}

{{/* What a Deployment selects by; it can never change in an upgrade. */}}
{{- define "taskyard.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "taskyard.labels" -}}
{{ include "taskyard.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}
